"""Reference model of Escoba: the rules page, read aloud in plain Python.

It exists to be compared with the engine, so it shares nothing with it: no import, no data, no
trick. Every rule is written the way the page states it and clarity wins over speed. A card is its
notation ('7o', 'Re', 'J1'), a *pile* on the table is a frozenset of cards (one card, unless
building), and a player's pile is a set of cards.

What the rules page leaves open, and how it is decided here:

* Deal order. The first card of a pack order is dealt first. The eldest hand gets its `hand_size`
  cards as one block, then the next seat, and so on; then `table_size` cards go to the table, in
  order. The later deals of a round are the same without a table.
* Custom packs. "All oros" and "all sevens" are all of that kind in the pack (at least one).
  The setenta asks for the suits the pack has. "Fifteen" is `target_sum`, the first "four" table
  cards are `table_size` cards, and thirty is twice `target_sum`. The "fewer than four piles" of
  building stay four. A run of oros is broken by a rank that the pack lacks.
* A set-aside table is out of the round but not out of the pack: with an oro set aside no side can
  have all the oros.
* Building with capture `hand`: if some card in hand can capture, only such cards may be chosen. The
  stuck rule of building applies when no card in hand has a legal capture, set or lay.
* A capture takes at least one table card, whatever the pack: a card worth `target_sum` by itself
  captures nothing.
* Jokers. A joker on the table may be part of the capture of an ordinary card. Both jokers may be
  in one capture, and then nothing else need be: J1 may take J2 alone. A joker that cannot capture
  (possible only where a card is worth `target_sum` or more) is laid. A capture without a joker
  totals exactly `target_sum`, also where a joker lies on the table.
* A sweep with the very last card of the round scores nothing with `capture_by` `value`; with
  `fifteen` (where small packs make it possible) it scores.
* Unclaimed leftovers stay where they are, on the table and in the stock, until the next deal.
* A match that nobody has won in 100 rounds for each point of the target, and 1,000 more, is over.
* A side is `seat % 2` in a partnership and the seat otherwise.

The combinations that the rules page refuses are not checked here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple

Card = str
Pile = frozenset[Card]
RulesMapping = Mapping[str, Any]

RANKS = {1: "1", 2: "2", 3: "3", 4: "4", 5: "5", 6: "6", 7: "7", 8: "S", 9: "C", 10: "R"}
SUITS = {"oros": "o", "copas": "c", "espadas": "e", "bastos": "b"}
VALUES = {letter: rank for rank, letter in RANKS.items()}
SETENTA = {
    "7": 21, "6": 18, "1": 16, "5": 15, "4": 14, "3": 13, "2": 12, "S": 10, "C": 10, "R": 10,
}  # fmt: skip
FREE_PILES = 4


class Move(NamedTuple):
    """One whole play.

    Attributes:
        card: The card played from hand.
        kind: `capture`, `lay` (alone on the table) or `set` (on a pile, building only).
        taken: For `capture` the cards taken from the table; for `set` the cards of the pile it
            is set on; for `lay` empty.
    """

    card: Card
    kind: str
    taken: frozenset[Card] = frozenset()


def in_order(moves: Iterable[Move]) -> list[Move]:
    """Sorts moves the same way in every process, so that a seeded choice is reproducible."""
    return sorted(moves, key=lambda move: (move.card, move.kind, sorted(move.taken)))


@dataclass(frozen=True)
class RoundReport:
    """What a round scored. Every tuple but `piles` has one entry per side.

    Attributes:
        piles: The cards each *seat* ended the round with, leftovers included.
        cards: Number of cards.
        oros: Number of oros.
        sevens: Number of sevens.
        seven_of_oros: Whether the side has the seven of oros.
        setenta: Setenta total; None where a suit of the pack is missing.
        napola: Length of the napola, 0 below three cards; counted whether or not it scores.
        escobas: Number of escobas.
        points: Points by category: `most_cards`, `most_oros` and `most_sevens` (both with the
            points for all of them in their place), `seven_of_oros`, `setenta`, `escoba`, `napola`.
        total: Points of the round.
    """

    piles: tuple[frozenset[Card], ...]
    cards: tuple[int, ...]
    oros: tuple[int, ...]
    sevens: tuple[int, ...]
    seven_of_oros: tuple[bool, ...]
    setenta: tuple[int | None, ...]
    napola: tuple[int, ...]
    escobas: tuple[int, ...]
    points: dict[str, tuple[Fraction, ...]]
    total: tuple[Fraction, ...]


# Cards and piles


def is_joker(card: Card) -> bool:
    """Tells whether a card is a joker."""
    return card in ("J1", "J2")


def value(card: Card) -> int:
    """Returns the capture value of an ordinary card, 1 to 10."""
    return VALUES[card[0]]


def full_pack(rules: RulesMapping) -> list[Card]:
    """Returns the cards that the rules play with, in no order that matters."""
    pack = [RANKS[rank] + SUITS[suit] for suit in rules["suits"] for rank in rules["ranks"]]
    return pack + ["J1", "J2"][: rules["jokers"]]


def pile_total(pile: Iterable[Card]) -> int:
    """Returns the total of some ordinary cards: what a pile counts as."""
    return sum(value(card) for card in pile)


def joined(piles: Iterable[Pile]) -> frozenset[Card]:
    """Returns all cards of some piles."""
    return frozenset(card for pile in piles for card in pile)


def choices(piles: Iterable[Pile], limit: int) -> list[tuple[tuple[Pile, ...], int]]:
    """Enumerates the choices of piles without a joker that total at most `limit`.

    Args:
        piles: Piles of ordinary cards.
        limit: The highest total wanted.

    Returns:
        Every choice, the empty one among them, with its total; nothing if `limit` is negative.
    """
    found: list[tuple[tuple[Pile, ...], int]] = [((), 0)] if limit >= 0 else []
    for pile in piles:
        added = pile_total(pile)
        found += [
            ((*chosen, pile), total + added) for chosen, total in found if total + added <= limit
        ]
    return found


def choices_totalling(piles: Iterable[Pile], total: int) -> set[frozenset[Card]]:
    """Returns the cards of every choice of at least one pile that totals exactly `total`."""
    return {
        joined(chosen) for chosen, reached in choices(piles, total) if chosen and reached == total
    }


# A turn


def captures(rules: RulesMapping, card: Card, table_piles: Iterable[Pile]) -> set[frozenset[Card]]:
    """Lists what a card can capture, sections 1, 3, 6 and 7.

    Args:
        rules: Every field of the rules.
        card: The card played.
        table_piles: The piles on the table.

    Returns:
        The sets of table cards that it may take, of which one play takes one.
    """
    piles = list(table_piles)
    if rules["capture_by"] == "value":
        equal = {pile for pile in piles if pile_total(pile) == value(card)}
        return equal or choices_totalling(piles, value(card))

    jokers = [pile for pile in piles if any(is_joker(one) for one in pile)]
    ordinary = [pile for pile in piles if pile not in jokers]
    missing = rules["target_sum"] - (0 if is_joker(card) else value(card))
    found = set()
    if not is_joker(card):
        found |= choices_totalling(ordinary, missing)
    joker_choices: list[list[Pile]] = [[], *([joker] for joker in jokers)]
    if len(jokers) == 2:
        joker_choices.append(jokers)
    for taken_jokers in joker_choices:
        number = is_joker(card) + len(taken_jokers)
        if number:
            # Each joker stands for at least 1, so the others must leave 1 for each of them.
            for chosen, _ in choices(ordinary, missing - number):
                found.add(joined([*taken_jokers, *chosen]))
    return found - {frozenset()}


def placements(rules: RulesMapping, card: Card, table_piles: Sequence[Pile]) -> set[Move]:
    """Lists the ways to leave a card on the table without capturing, sections 1 and 3.

    Args:
        rules: Every field of the rules.
        card: The card played.
        table_piles: The piles on the table.

    Returns:
        The moves of kind `lay` and `set`; empty where building leaves the card no place.
    """
    if not rules["building"]:
        return {Move(card, "lay")}
    moves = {
        Move(card, "set", pile)
        for pile in table_piles
        if pile_total(pile) + value(card) < rules["target_sum"]
    }
    if len(table_piles) < FREE_PILES:
        moves.add(Move(card, "lay"))
    return moves


# The first table cards


def is_fifteen(rules: RulesMapping, table_cards: Sequence[Card]) -> bool:
    """Tells whether all the first table cards together make fifteen, section 4."""
    if any(is_joker(card) for card in table_cards):
        return False
    return pile_total(table_cards) == rules["target_sum"]


def is_thirty(rules: RulesMapping, table_cards: Sequence[Card]) -> bool:
    """Tells whether the first table cards make thirty in the sense of `initial_thirty`."""
    if any(is_joker(card) for card in table_cards):
        return False
    fifteen = rules["target_sum"]
    if pile_total(table_cards) != 2 * fifteen:
        return False
    if rules["initial_thirty"] == "sum":
        return True
    # The rest of a group of fifteen out of thirty is the other group.
    return bool(choices_totalling([frozenset([card]) for card in table_cards], fifteen))


def initial_escobas(rules: RulesMapping, table_cards: Sequence[Card]) -> int:
    """Returns the escobas that the first table cards give to somebody: 0, 1 or 2, section 4."""
    if rules["initial_table"] not in ("dealer", "eldest"):
        return 0
    if is_fifteen(rules, table_cards):
        return 1
    return 2 if is_thirty(rules, table_cards) else 0


# Scoring


def majority(counts: Sequence[int], points: int, ties: str) -> list[Fraction]:
    """Shares out a majority category.

    Args:
        counts: The count of each side.
        points: What the category is worth.
        ties: `none`, `all` or `split`.

    Returns:
        The points of each side.
    """
    highest = max(counts)
    leaders = [side for side, count in enumerate(counts) if count == highest]
    scores = [Fraction(0) for _ in counts]
    if highest == 0 or (len(leaders) > 1 and ties == "none"):
        return scores
    for side in leaders:
        scores[side] = Fraction(points, len(leaders) if ties == "split" else 1)
    return scores


def majority_or_all(
    counts: Sequence[int], in_pack: int, most: int, all_of_them: int, ties: str
) -> list[Fraction]:
    """Shares out a majority category with other points for a side that has all there are.

    Args:
        counts: The count of each side.
        in_pack: How many of the kind the pack has.
        most: Points for most of them.
        all_of_them: Points, in place of `most`, for all of them.
        ties: `none`, `all` or `split`.

    Returns:
        The points of each side.
    """
    if in_pack > 0 and in_pack in counts:
        return majority(counts, all_of_them, ties)
    return majority(counts, most, ties)


def setenta_total(cards: Iterable[Card], suits: Iterable[str]) -> int | None:
    """Returns the setenta of some cards, section 5.

    Args:
        cards: Captured cards.
        suits: The suits the pack has, by name.

    Returns:
        The best card of each suit, summed; None if a suit is missing.
    """
    cards = [card for card in cards if not is_joker(card)]
    total = 0
    for suit in suits:
        of_suit = [SETENTA[card[0]] for card in cards if card[1] == SUITS[suit]]
        if not of_suit:
            return None
        total += max(of_suit)
    return total


def napola_length(cards: Iterable[Card]) -> int:
    """Returns the length of the unbroken run of oros from the ace; 0 without ace, 2 and 3."""
    held = set(cards)
    length = 0
    while RANKS.get(length + 1, "none") + "o" in held:
        length += 1
    return length if length >= 3 else 0


def score_round(
    rules: RulesMapping,
    piles_per_seat: Sequence[Iterable[Card]],
    escobas_per_seat: Sequence[int],
) -> RoundReport:
    """Scores a round.

    Args:
        rules: Every field of the rules.
        piles_per_seat: The captured cards of each seat.
        escobas_per_seat: The escobas of each seat.

    Returns:
        The report.
    """
    seats = range(len(piles_per_seat))
    seat_piles = tuple(frozenset(pile) for pile in piles_per_seat)
    if rules["partnership"]:
        sides = [[seat for seat in seats if seat % 2 == side] for side in (0, 1)]
    else:
        sides = [[seat] for seat in seats]
    piles = [[card for seat in side for card in seat_piles[seat]] for side in sides]
    escobas = [sum(escobas_per_seat[seat] for seat in side) for side in sides]

    def oros_of(cards: Iterable[Card]) -> int:
        return sum(card[1] == "o" for card in cards)

    def sevens_of(cards: Iterable[Card]) -> int:
        return sum(card[0] == "7" for card in cards)

    cards = [len(pile) for pile in piles]
    oros = [oros_of(pile) for pile in piles]
    sevens = [sevens_of(pile) for pile in piles]
    velo = ["7o" in pile for pile in piles]
    setenta = [setenta_total(pile, rules["suits"]) for pile in piles]
    napola = [napola_length(pile) for pile in piles]

    pack, ties = full_pack(rules), rules["ties"]
    points = {
        "most_cards": majority(cards, rules["most_cards"], ties),
        "most_oros": majority_or_all(
            oros, oros_of(pack), rules["most_oros"], rules["all_oros"], ties
        ),
        "most_sevens": majority_or_all(
            sevens, sevens_of(pack), rules["most_sevens"], rules["all_sevens"], ties
        ),
        "seven_of_oros": [Fraction(rules["seven_of_oros"] if has else 0) for has in velo],
        "setenta": majority([total or 0 for total in setenta], rules["setenta"], ties),
        "escoba": [Fraction(rules["escoba"] * number) for number in escobas],
        "napola": [Fraction(length if rules["napola"] else 0) for length in napola],
    }
    return RoundReport(
        piles=seat_piles,
        cards=tuple(cards),
        oros=tuple(oros),
        sevens=tuple(sevens),
        seven_of_oros=tuple(velo),
        setenta=tuple(setenta),
        napola=tuple(napola),
        escobas=tuple(escobas),
        points={category: tuple(scores) for category, scores in points.items()},
        total=tuple(
            sum((scores[side] for scores in points.values()), Fraction(0))
            for side in range(len(sides))
        ),
    )


def match_target(rules: RulesMapping) -> int:
    """Returns the points that a match is played to."""
    if rules["partnership"] and rules["partnership_target"] is not None:
        return rules["partnership_target"]
    return rules["target"]


def most_rounds(rules: RulesMapping) -> int:
    """Returns the rounds after which a match is over even if nobody has won it."""
    return 100 * (match_target(rules) + 10)


def match_winner(scores: Sequence[Fraction | int], target: int) -> int | None:
    """Decides a match at the end of a round.

    Args:
        scores: The score of each side.
        target: The points the match is played to.

    Returns:
        The side that has won; None while the match goes on.
    """
    highest = max(scores)
    leaders = [side for side, score in enumerate(scores) if score == highest]
    if highest >= target and len(leaders) == 1:
        return leaders[0]
    return None


# The game


class ReferenceGame:
    """A match, played one whole move at a time.

    Attributes:
        rules: Every field of the rules.
        hands: The cards in hand of each seat, as sets.
        table: The piles on the table, oldest first.
        piles: The captured cards of each seat, as sets.
        set_aside: The first table cards where they left the round.
        stock: The undealt cards, the next one first.
        turn: The seat to move.
        dealer: The dealing seat.
        last_capturer: The seat that captured last in this round; None before the first capture.
        escobas: The escobas of each seat in this round.
        round_index: 0 for the first round.
        scores: The match score of each side.
        reports: One report per finished round.
        match_over: Whether the match is decided. The table is then as the last round left it.
        winner: The winning side; None while the match goes on.
    """

    def __init__(
        self,
        rules: RulesMapping,
        dealer: int,
        decks: Iterable[Sequence[Card]],
        scores: Sequence[Fraction | int] | None = None,
    ) -> None:
        """Deals the first round.

        Args:
            rules: Every field of the rules, by its plain value.
            dealer: The seat that deals the first round.
            decks: Pack orders, the first card dealt first. One is used for every deal of a round
                from a full pack, so a redeal takes the next one.
            scores: Scores of the sides before the first round; zeros if not given.

        Raises:
            ValueError: If a pack order is not a permutation of the pack.
            RuntimeError: If the pack orders run out.
        """
        self.rules = rules
        self.players: int = rules["players"]
        sides = 2 if rules["partnership"] else self.players
        self.scores = [Fraction(score) for score in (scores or [0] * sides)]
        self.reports: list[RoundReport] = []
        self.match_over = False
        self.winner: int | None = None
        self.round_index = 0
        self.dealer = dealer
        self._decks = iter(decks)
        self._start_round()

    def legal_moves(self) -> set[Move]:
        """Returns every move that the seat to move may make; none when the match is over."""
        if self.match_over:
            return set()
        hand = self.hands[self.turn]
        takes = {card: captures(self.rules, card, self.table) for card in hand}
        hand_can_capture = any(takes.values())

        moves = set()
        for card in hand:
            moves |= {Move(card, "capture", taken) for taken in takes[card]}
            forced = {
                "optional": False,
                "card": bool(takes[card]),
                "hand": hand_can_capture,
            }[self.rules["capture"]]
            if not forced:
                moves |= placements(self.rules, card, self.table)
        # The hole of section 3: with every card stuck, any of them is laid as an extra pile.
        return moves or {Move(card, "lay") for card in hand}

    def play(self, move: Move, legal_moves: set[Move] | None = None) -> None:
        """Makes a move of the seat to move; scores the round and deals the next when it ends.

        Args:
            move: A legal move.
            legal_moves: What `legal_moves` has returned for this turn, if it has been asked.

        Raises:
            ValueError: If the move is not legal; the game is then unchanged.
            RuntimeError: If the next round needs a pack order and none is left.
        """
        if move not in (self.legal_moves() if legal_moves is None else legal_moves):
            raise ValueError(f"not a legal move for seat {self.turn}: {move}")
        seat = self.turn
        self.hands[seat].remove(move.card)
        hands_are_empty = not any(self.hands)
        is_last_card = hands_are_empty and not self._stock_can_serve_everybody()

        if move.kind == "capture":
            self._capture(seat, move, is_last_card)
        elif move.kind == "set":
            where = self.table.index(move.taken)
            self.table[where] = self.table[where] | {move.card}
        else:
            self.table.append(frozenset([move.card]))

        self.turn = self._next(seat)
        if is_last_card:
            self._end_round()
        elif hands_are_empty:
            self._deal_hands()

    def _next(self, seat: int) -> int:
        return (seat + 1) % self.players

    def _start_round(self) -> None:
        while True:
            self._shuffle_and_deal()
            table_cards = [card for pile in self.table for card in pile]
            if self.rules["initial_table"] != "redeal" or not is_fifteen(self.rules, table_cards):
                break

        if self.rules["initial_table"] == "set_aside" and is_fifteen(self.rules, table_cards):
            self.set_aside = set(table_cards)
            self.table = []
        given = initial_escobas(self.rules, table_cards)
        if given:
            to = self.dealer if self.rules["initial_table"] == "dealer" else self._next(self.dealer)
            self.piles[to] |= set(table_cards)
            self.escobas[to] += given
            self.last_capturer = to
            self.table = []

    def _shuffle_and_deal(self) -> None:
        deck = next(self._decks, None)
        if deck is None:
            raise RuntimeError("no pack order left for the next deal")
        if sorted(deck) != sorted(full_pack(self.rules)):
            raise ValueError(f"not a permutation of the pack: {deck}")
        self.stock = list(deck)
        self.hands: list[set[Card]] = [set() for _ in range(self.players)]
        self.piles: list[set[Card]] = [set() for _ in range(self.players)]
        self.escobas = [0] * self.players
        self.set_aside: set[Card] = set()
        self.last_capturer: int | None = None
        self.turn = self._next(self.dealer)
        self._deal_hands()
        self.table = [frozenset([self.stock.pop(0)]) for _ in range(self.rules["table_size"])]

    def _stock_can_serve_everybody(self) -> bool:
        return len(self.stock) >= self.players * self.rules["hand_size"]

    def _deal_hands(self) -> None:
        seat = self.dealer
        for _ in range(self.players):
            seat = self._next(seat)
            self.hands[seat] = {self.stock.pop(0) for _ in range(self.rules["hand_size"])}

    def _capture(self, seat: int, move: Move, is_last_card: bool) -> None:
        self.table = [pile for pile in self.table if not pile <= move.taken]
        captured = move.taken | {move.card}
        self.piles[seat] |= captured
        self.last_capturer = seat

        sweeps = not self.table
        if any(is_joker(card) for card in captured):
            sweeps = False
        if is_last_card and self.rules["capture_by"] == "value":
            sweeps = False
        if sweeps:
            self.escobas[seat] += 1

    def _end_round(self) -> None:
        if self.last_capturer is not None:
            self.piles[self.last_capturer] |= joined(self.table) | set(self.stock)
            self.table = []
            self.stock = []
        report = score_round(self.rules, self.piles, self.escobas)
        self.reports.append(report)
        self.scores = [
            score + points for score, points in zip(self.scores, report.total, strict=True)
        ]
        self.winner = match_winner(self.scores, match_target(self.rules))
        if self.winner is not None or len(self.reports) == most_rounds(self.rules):
            self.match_over = True
            return
        self.round_index += 1
        self.dealer = self._next(self.dealer)
        self._start_round()
