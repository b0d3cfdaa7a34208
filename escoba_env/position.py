"""Positions as text, and the check that a game record is a possible one.

A position is one line: ``escoba/1`` and ``key=value`` parts, cards in notation, seats apart by
``/``, ``-`` for nothing and ``?5`` for five cards that the viewer of a view does not know. Every
part of the record is in it, so that reading back what was written gives an equal record.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from escoba_env.batch import MAX_SEED
from escoba_env.cards import (
    NUM_CARDS,
    NUM_IDS,
    card_name,
    card_set,
    cards_in,
    names_of,
    parse_card,
    parse_cards,
)
from escoba_env.checks import each_key_once
from escoba_env.engine import batch as kernels
from escoba_env.engine.bits import VALUES, total
from escoba_env.engine.rebuild import AS_LOGGED, NOT_BEGUN, rebuild
from escoba_env.engine.record import (
    AT_END,
    FROM_START,
    GAME_OVER,
    HIDDEN,
    NOBODY,
    NOT_YET,
    PLAYING,
    ROUND_OVER,
    STATE,
    TWELFTHS,
    lower,
)
from escoba_env.notation import Move, parse_move
from escoba_env.rules import Rules, make_rules

MAX_COUNT = 2**30
"""Highest match score, in twelfths, that a game may begin with, and number of rounds."""
MAX_SCORE = 2**31 - 2**24
"""Highest match score, in twelfths, that a record may have: a round more does not overflow it."""

_HEADER = "escoba/1"
_PHASES = {PLAYING: "playing", ROUND_OVER: "round_over", GAME_OVER: "over"}


def check_position(rules: Rules, record: Any, episode: str | None = None) -> None:
    """Checks that a record is a possible game, or view of one, under some rules.

    A record says most things in two places: where things are, and in the log of the round's turns
    how they came there. What must agree:

    - Every card of the pack is in one place: a hand, a pile, the table, set aside, being played or
      in the stock. In a view as many are unseen as other hands and the stock have.
    - ``hand_counts`` are the numbers of cards in ``hands``. The seat to move and those after it
      have equally many cards, then those that have moved one less.
    - ``stock`` is an order of the whole pack, each card once, of which ``stock_next`` cards have
      been dealt. Cards that a position was set up with have no place in it: they come first, as
      ``HIDDEN``. In a view all cards are.
    - ``heads``, ``pile_of`` and ``totals`` say the same of the piles on the table.
    - ``scores`` are at least the ``round_points`` of the round before, which are zero in the first
      round. No round follows on a game of one round, nor on a match that somebody has won.
    - Everything of the round that is played is what follows from its deal, ``dealer`` and log
      (``turn_index``, ``played_at``, ``taken_at``), every turn of which the rules allow:
      ``hands``, ``table``, ``piles``, ``set_aside``, ``heads``, ``pile_of``, ``totals``, ``turn``,
      ``last_capturer``, ``escobas``, ``stock_next``, and ``played``, ``picked`` and ``placing`` of
      the turn that goes on; ``legal`` follows from these; at the end of the round ``phase``,
      ``round_points`` and ``scores`` do.

    The log of a position that was set up (``Game.from_position``) begins there. What it says of the
    time before is said once, and taken as it is: piles, escobas, last capturer, dealer, and cards
    set aside. So it is in a view, which does not tell how the round was dealt.

    ``seed``, ``game_index`` and ``round_index`` are said once: a deck may have been given.

    Args:
        rules: Rules of the table.
        record: A game record, dtype ``STATE``.
        episode: ``"round"`` or ``"match"``; default: not known, and whether the game should be
            over or go on is not checked.

    Raises:
        ValueError: If something does not agree, or a number is out of range.
    """
    spec = lower(rules, episode or "round")
    _check_ranges(rules, record)
    _check_cards(rules, record)
    _check_piles(rules, record)
    _check_hands(rules, record)
    _check_points(record)
    _check_log(record)
    given = record.copy().reshape(1)
    if episode is None:
        # As the only round it may be any, and is over with its last card.
        given["round_index"] = 0
    rebuilt = np.zeros(1, STATE)
    forbidden = rebuild(spec, given, rebuilt)
    if forbidden == NOT_BEGUN:
        raise ValueError(
            f"round_index={int(record['round_index'])}: no such round begins, as the game was over "
            f"before it, or as its first table is dealt again (initial_table='redeal')"
        )
    if forbidden != AS_LOGGED:
        move = logged_move(record, forbidden)
        turn = f"turn {forbidden + 1} of the log" if move is None else f"move {move} of the log"
        if forbidden == record["turn_index"]:
            turn = f"played={card_name(int(record['played']))} with its picks"
        raise ValueError(f"{turn} is not possible where it is made, or from the legal cards")
    if given.tobytes() == rebuilt.tobytes():
        return
    name = next(name for name in STATE.names or () if (given[name] != rebuilt[name]).any())
    found, wanted = (_shown(name, one[name][0]) for one in (given, rebuilt))
    raise ValueError(
        f"{name}={found} does not fit the deal and the log of the round, which make it {wanted}"
    )


def _shown(name: str, value: Any) -> str:
    """Writes a field of a record for a message; card sets as cards."""
    if name in ("hands", "piles"):
        return "/".join(_cards(cards) for cards in value)
    if name in ("table", "set_aside", "heads", "picked"):
        return _cards(value)
    return str(list(cards_in(value)) if name == "legal" else value.tolist())


def _check_ranges(rules: Rules, record: Any) -> None:
    seats = rules.players
    for name, low in (("turn", 0), ("dealer", 0), ("last_capturer", NOBODY), ("viewer", NOBODY)):
        if not low <= int(record[name]) < seats:
            raise ValueError(f"{name}={int(record[name])}; allowed: seats 0 to {seats - 1}")
    if int(record["phase"]) not in _PHASES:
        raise ValueError(f"phase={int(record['phase'])}; allowed: {sorted(_PHASES)}")
    by_side = {"scores", "round_points"}
    for name in ("hands", "piles", "hand_counts", "escobas", *sorted(by_side)):
        number = rules.num_sides if name in by_side else seats
        if record[name][number:].any() or (record[name] < 0).any():
            raise ValueError(f"{name}={record[name].tolist()} has numbers that no seat can have")
    for name, most in (
        *(("seed", MAX_SEED), ("game_index", MAX_SEED)),
        *(("round_index", MAX_COUNT), ("turn_index", AT_END - 1)),
    ):
        if not 0 <= record[name] <= most:
            raise ValueError(f"{name}={int(record[name])}; allowed: 0 to {most}")
    for name in by_side:
        if (record[name] > MAX_SCORE).any():
            raise ValueError(
                f"{name}={record[name].tolist()}; allowed: up to {MAX_SCORE}, twelfths"
            )
    if (record["escobas"] > NUM_CARDS).any():
        raise ValueError(f"escobas={record['escobas'].tolist()}; allowed: up to {NUM_CARDS} each")
    if record["phase"] == ROUND_OVER:
        raise ValueError("phase=round_over; a game never stands between two rounds")


def _check_cards(rules: Rules, record: Any) -> None:
    size = int(record["stock_size"])
    start = int(record["stock_next"])
    if size != rules.pack_size or not 0 <= start <= size:
        raise ValueError(f"stock_size={size}, stock_next={start}; the pack has {rules.pack_size}")
    view = int(record["viewer"]) != NOBODY
    stock = [int(card) for card in record["stock"][start:size]]
    places: list[tuple[str, int]] = [
        ("the table", int(record["table"])),
        ("the cards set aside", int(record["set_aside"])),
    ]
    for seat in range(rules.players):
        places.append((f"the hand of seat {seat}", int(record["hands"][seat])))
        places.append((f"the pile of seat {seat}", int(record["piles"][seat])))
    played = int(record["played"])
    if played != NOBODY:
        if not 0 <= played < NUM_IDS:
            raise ValueError(f"played={played}; allowed: a card id or {NOBODY}")
        places.append(("the card being played", 1 << played))
    if not view:
        for card in stock:
            if not 0 <= card < NUM_IDS:
                raise ValueError(f"the stock holds {card}, which is no card id")
            places.append(("the stock", 1 << card))
    seen = 0
    for name, cards in places:
        if cards & ~rules.pack:
            raise ValueError(f"{name} holds {names_of(cards & ~rules.pack)}, not in the pack")
        if cards & seen:
            raise ValueError(f"{name} holds {names_of(cards & seen)}, which is elsewhere too")
        seen |= cards
    if not view and seen != rules.pack:
        raise ValueError(f"{names_of(rules.pack & ~seen)} are nowhere; all cards have a place")
    unseen = (rules.pack & ~seen).bit_count()
    if view:
        hidden = sum(
            int(record["hand_counts"][seat]) - int(record["hands"][seat]).bit_count()
            for seat in range(rules.players)
        )
        if unseen != hidden + len(stock):
            raise ValueError(
                f"{unseen} cards are unseen, but {hidden} are in hidden hands and {len(stock)} in "
                f"the stock"
            )
    if int(record["placing"]) not in (0, int(rules.building)) or (
        record["placing"] and (played == NOBODY or record["picked"])
    ):
        raise ValueError(f"placing={int(record['placing'])} does not fit the turn")
    picked = int(record["picked"])
    if picked & ~int(record["table"]) or (picked and played == NOBODY):
        raise ValueError(f"picked={picked:#x}; allowed: table cards, once a hand card is chosen")
    if (record["stock"][size:] != HIDDEN).any():
        raise ValueError(f"the stock's order is longer than the pack of {size}")
    order = [int(card) for card in record["stock"][:size]]
    known = [card for card in order if card != HIDDEN]
    if view and known:
        raise ValueError("a view knows nothing of the stock's order")
    if any(card < 0 or not rules.pack >> card & 1 for card in known):
        raise ValueError(f"the stock's order {order} holds cards not in the pack")
    if len(set(known)) < len(known) or order[size - len(known) :] != known:
        raise ValueError(
            f"the stock's order {order} is not possible; allowed: each card once, and "
            f"{HIDDEN} only at its beginning"
        )


def _check_points(record: Any) -> None:
    over = record["phase"] != PLAYING
    first = not over and record["round_index"] == 0
    if first and record["round_points"].any():
        raise ValueError(
            f"round_points={record['round_points'].tolist()} although no round has been finished"
        )
    if (record["round_points"] > record["scores"]).any():
        raise ValueError(
            f"scores={record['scores'].tolist()} are less than "
            f"round_points={record['round_points'].tolist()}, which are among them"
        )


def _check_piles(rules: Rules, record: Any) -> None:
    """Checks heads and totals of the piles on the table."""
    heads, table = int(record["heads"]), int(record["table"])
    if not rules.building:
        if heads or record["pile_of"].any() or record["totals"].any():
            raise ValueError("heads, pile_of and totals are for building=true alone")
        return
    if ((record["pile_of"] < 0) | (record["pile_of"] >= NUM_IDS)).any():
        raise ValueError(f"pile_of={record['pile_of'].tolist()}; allowed: card ids")
    pile_of = [int(head) for head in record["pile_of"]]
    for head in set(pile_of):
        pile = [card for card in range(NUM_IDS) if pile_of[card] == head]
        whole = int(total(card_set(pile)))
        if head != pile[0] or any(int(record["totals"][card]) != whole for card in pile):
            raise ValueError(f"the pile {names_of(card_set(pile))} has another head or total")
        on_table = [table >> card & 1 for card in pile]
        if len(pile) > 1 and (whole >= rules.target_sum or len(set(on_table)) > 1):
            raise ValueError(
                f"the pile {names_of(card_set(pile))} totals {whole}, or is torn apart"
            )
    if heads != card_set(pile_of[card] for card in cards_in(table)):
        raise ValueError(f"heads {names_of(heads)} are not those of the table's piles")


def _check_hands(rules: Rules, record: Any) -> None:
    seats = rules.players
    turn = int(record["turn"])
    counts = [int(n) for n in record["hand_counts"][:seats]]
    for seat, count in enumerate(counts):
        known = int(record["hands"][seat]).bit_count()
        hidden = int(record["viewer"]) not in (NOBODY, seat) and not rules.open_hands
        if known != (0 if hidden else count):
            raise ValueError(f"hand_counts={counts} does not fit the hand of seat {seat}")
    if int(record["phase"]) != PLAYING:
        if any(counts):
            raise ValueError(f"hands of {counts} cards are left although the round is over")
        return
    order = [counts[(turn + i) % seats] for i in range(seats)]
    if int(record["played"]) != NOBODY:
        order[0] += 1
    if order[0] < 1 or sorted(order, reverse=True) != order or order[0] - order[-1] > 1:
        raise ValueError(
            f"hands of {counts} cards do not fit turn={turn}; allowed: the seat to move and those "
            f"after it have equally many, then those that have moved one less"
        )


def _check_log(record: Any) -> None:
    """Checks that a log has one card for each turn, and knows no other turns."""
    turns = int(record["turn_index"])
    played_at = [int(t) for t in record["played_at"]]
    taken_at = [int(t) for t in record["taken_at"]]
    expected = list(range(turns))
    if record["played"] != NOBODY:
        expected.append(turns)
        if played_at[int(record["played"])] != turns:
            raise ValueError(f"the card being played is not logged for turn {turns}")
    if sorted(t for t in played_at if t not in (NOT_YET, FROM_START)) != expected:
        raise ValueError(f"played_at={played_at} does not log one card for each of {turns} turns")
    if not set(taken_at) <= {NOT_YET, FROM_START, AT_END, *range(turns)}:
        raise ValueError(f"taken_at={taken_at} has turns that are none of {turns}")


# -- writing --------------------------------------------------------------------------------


def format_position(rules: Rules, episode: str, record: Any) -> str:
    """Writes a record as one line that :func:`parse_position` reads back."""
    seats, sides = rules.players, rules.num_sides
    end = [card for card in range(NUM_IDS) if record["taken_at"][card] == AT_END]
    first = card_set(card for card in range(NUM_IDS) if record["played_at"][card] == FROM_START)
    won = [card for card in range(NUM_IDS) if record["taken_at"][card] == FROM_START]
    parts = {
        "rules": json.dumps(rules.changes(), separators=(",", ":"), sort_keys=True),
        "episode": episode,
        "phase": _PHASES[int(record["phase"])],
        "turn": str(int(record["turn"])),
        "dealer": str(int(record["dealer"])),
        "table": table_text(record),
        "hands": "/".join(_hand(record, seat) for seat in range(seats)),
        "piles": "/".join(_cards(pile) for pile in record["piles"][:seats]),
        "last": _seat(record["last_capturer"]),
        "escobas": "/".join(str(int(n)) for n in record["escobas"][:seats]),
        "played": "-" if record["played"] == NOBODY else card_name(int(record["played"])),
        "picked": _cards(record["picked"]),
        "placing": str(int(record["placing"])),
        "scores": ",".join(str(Fraction(int(n), TWELFTHS)) for n in record["scores"][:sides]),
        "points": ",".join(str(Fraction(int(n), TWELFTHS)) for n in record["round_points"][:sides]),
        "round": str(int(record["round_index"])),
        "aside": _cards(record["set_aside"]),
        "first": _piles_text(_in_piles(record, first)),
        "won": _cards(card_set(won)),
        "log": ";".join(_log_entry(record, t) for t in range(int(record["turn_index"]))) or "-",
        "end": _cards(card_set(end)),
        "stock": _stock(record),
        "next": str(int(record["stock_next"])),
        "seed": str(int(record["seed"])),
        "game": str(int(record["game_index"])),
        "viewer": _seat(record["viewer"]),
    }
    return " ".join([_HEADER, *(f"{key}={value}" for key, value in parts.items())])


def _cards(bits: Any) -> str:
    return names_of(int(bits), separator=",") or "-"


def _seat(seat: Any) -> str:
    return "-" if seat == NOBODY else str(int(seat))


def _hand(record: Any, seat: int) -> str:
    count = int(record["hand_counts"][seat])
    return _cards(record["hands"][seat]) if record["hands"][seat] or not count else f"?{count}"


def _stock(record: Any) -> str:
    cards = [int(card) for card in record["stock"][: int(record["stock_size"])]]
    if all(card == HIDDEN for card in cards):
        return f"?{len(cards)}"
    return ",".join("?" if card == HIDDEN else card_name(card) for card in cards)


def table_piles(record: Any) -> list[int]:
    """Returns the piles on a table as card sets; without building every card is one."""
    return _in_piles(record, int(record["table"]))


def _in_piles(record: Any, cards: int) -> list[int]:
    """Returns a card set by the piles in which its cards lie, or lay."""
    if not record["totals"].any():
        return [1 << card for card in cards_in(cards)]
    piles: dict[int, int] = {}
    for card in cards_in(cards):
        head = int(record["pile_of"][card])
        piles[head] = piles.get(head, 0) | 1 << card
    return list(piles.values())


def table_text(record: Any, faces: str = "spanish", separator: str = ",") -> str:
    """Names the cards on a table, those of a pile joined by ``+``."""
    return _piles_text(table_piles(record), faces, separator)


def _piles_text(piles: Iterable[int], faces: str = "spanish", separator: str = ",") -> str:
    return separator.join(names_of(pile, faces, "+") for pile in piles) or "-"


def _log_entry(record: Any, turn_index: int) -> str:
    move = logged_move(record, turn_index)
    return "?" if move is None else str(move)


def logged_move(record: Any, turn_index: int) -> Move | None:
    """Returns the move that was made in a finished turn of the round, by the record's log."""
    played_at = record["played_at"].tolist()
    if played_at.count(turn_index) != 1:
        return None
    card = played_at.index(turn_index)
    # Found as bytes: this is asked for every move that is listed.
    taken_at = record["taken_at"].tobytes()
    taken = 0
    at = taken_at.find(turn_index)
    while at >= 0:
        taken |= 1 << at
        at = taken_at.find(turn_index, at + 1)
    if taken:
        return Move(card, taken & ~(1 << card))
    if not record["totals"].any():
        return Move(card)
    # Building: a card lies in the same pile as what it was set on, and later cards set on it.
    pile_of = record["pile_of"].tolist()
    below = (
        other
        for other, turn in enumerate(played_at)
        if turn < turn_index and turn != NOT_YET and pile_of[other] == pile_of[card]
    )
    return Move(card, 0, card_set(below))


def parse_piles(table: str | Iterable[str]) -> list[int]:
    """Reads the cards of a table, a card set for each pile; the cards of a pile joined by ``+``.

    Raises:
        ValueError: If a name is no card, or a card stands twice.
    """
    try:
        names = table.replace(",", " ").split() if isinstance(table, str) else list(table)
        parse_cards([card for name in names for card in name.split("+")])
    except (TypeError, AttributeError):
        raise ValueError(f"table={table!r}; allowed: cards in notation, 7o or 3o+4c") from None
    return [card_set(parse_cards(name.split("+"))) for name in names]


def set_piles(rules: Rules, record: Any, groups: Iterable[int]) -> None:
    """Fills in the piles of a record whose table is made of card sets ``groups``.

    Raises:
        ValueError: If a pile has several cards although the rules know no building.
    """
    if rules.building:
        record["pile_of"] = range(NUM_IDS)
        record["totals"] = VALUES
    _lay_piles(rules, record, groups)


def _lay_piles(rules: Rules, record: Any, groups: Iterable[int]) -> None:
    record["heads"] = 0
    for group in groups:
        if rules.building:
            _join(record, group)
            record["heads"] |= group & -group
        elif group & (group - 1):
            raise ValueError(f"pile {names_of(group)} is possible with building=true only")


def _join(record: Any, group: int) -> None:
    cards = list(cards_in(group))
    record["pile_of"][cards] = cards[0]
    _store("table", record["totals"], cards, int(total(group)))


# -- reading --------------------------------------------------------------------------------


def parse_position(text: str) -> tuple[Rules, str, NDArray[np.void]]:
    """Reads a position.

    Returns:
        Rules, episode and an array of one record, checked.

    Raises:
        ValueError: If the text is not a possible position.
    """
    given: object = text
    words = given.split() if isinstance(given, str) else []
    if not words or words[0] != _HEADER:
        raise ValueError(f"a position begins with {_HEADER!r}; got {text!r:.60}")
    parts: dict[str, str] = {}
    for word in words[1:]:
        key, equals, value = word.partition("=")
        if not equals or key in parts:
            raise ValueError(f"position part {word!r} is not key=value, or stands twice")
        parts[key] = value
    template = _parts_of_a_position()
    if set(parts) != template:
        wrong = sorted(set(parts) ^ template)
        raise ValueError(
            f"position parts {wrong} are missing or unknown; it has {sorted(template)}"
        )
    try:
        fields = json.loads(parts["rules"], object_pairs_hook=each_key_once)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"rules={parts['rules']!r:.80} is not JSON: {error}") from None
    rules = make_rules(fields)
    episode = parts["episode"]
    record = _read(rules, episode, parts)
    check_position(rules, record[0], episode)
    return rules, episode, record


@cache
def _parts_of_a_position() -> frozenset[str]:
    empty = np.zeros(1, STATE)
    text = format_position(Rules(), "round", empty[0])
    return frozenset(word.split("=")[0] for word in text.split()[1:])


def _read(rules: Rules, episode: str, parts: dict[str, str]) -> NDArray[np.void]:
    seats, sides = rules.players, rules.num_sides
    out = np.zeros(1, STATE)
    record = out[0]
    phases = {word: phase for phase, word in _PHASES.items()}
    if parts["phase"] not in phases:
        raise ValueError(f"phase={parts['phase']!r}; allowed: {', '.join(phases)}")
    record["phase"] = phases[parts["phase"]]
    for field, key in (
        *(("turn", "turn"), ("dealer", "dealer"), ("last_capturer", "last")),
        *(("round_index", "round"), ("stock_next", "next"), ("seed", "seed")),
        *(("game_index", "game"), ("viewer", "viewer")),
    ):
        _store(key, record, field, _number(key, parts[key]))
    for field, key in (("picked", "picked"), ("set_aside", "aside")):
        record[field] = _read_cards(parts[key])
    table = _read_piles(parts["table"])
    record["table"] = card_set(card for group in table for card in cards_in(group))
    # As cards lay at first, then as the log has moved them, and at last as they lie.
    set_piles(rules, record, _read_piles(parts["first"]))
    if parts["placing"] not in ("0", "1"):
        raise ValueError(f"placing={parts['placing']!r}; allowed: 0 or 1")
    record["placing"] = int(parts["placing"])
    record["played"] = NOBODY if parts["played"] == "-" else parse_card(parts["played"])
    for seat, hand in enumerate(_split("hands", parts, "/", seats)):
        if hand.startswith("?"):
            _store("hands", record["hand_counts"], seat, _number("hands", hand[1:]))
        else:
            record["hands"][seat] = _read_cards(hand)
            record["hand_counts"][seat] = int(record["hands"][seat]).bit_count()
    record["piles"][:seats] = [_read_cards(pile) for pile in _split("piles", parts, "/", seats)]
    for seat, number in enumerate(_split("escobas", parts, "/", seats)):
        _store("escobas", record["escobas"], seat, _number("escobas", number))
    for field, key in (("scores", "scores"), ("round_points", "points")):
        for side, score in enumerate(_split(key, parts, ",", sides)):
            if not re.fullmatch(r"\d{1,12}(/[1-9]\d?)?", score, re.ASCII):
                raise ValueError(f"{key}={parts[key]!r} is not {sides} scores")
            twelfths = Fraction(score) * TWELFTHS
            if twelfths.denominator != 1:
                raise ValueError(f"{key}={parts[key]!r}; allowed: twelfths of a point")
            _store(key, record[field], side, int(twelfths))
    record["stock"] = HIDDEN
    size = rules.pack_size
    record["stock"][size:] = lower(rules)[0]["pack_order"][size:]
    record["stock_size"] = size
    if parts["stock"] != f"?{size}":
        names = _split("stock", parts, ",", size)
        record["stock"][:size] = [HIDDEN if n == "?" else parse_card(n) for n in names]
    _read_log(rules, record, parts)
    _lay_piles(rules, record, table)
    _check_log_text(record, parts)
    if not 0 <= record["turn"] < seats:
        raise ValueError(f"turn={int(record['turn'])}; allowed: seats 0 to {seats - 1}")
    kernels.set_legal(lower(rules, episode), out)
    return out


def _read_log(rules: Rules, record: Any, parts: dict[str, str]) -> None:
    record["played_at"] = NOT_YET
    record["taken_at"] = NOT_YET
    for group in _read_piles(parts["first"]):
        record["played_at"][list(cards_in(group))] = FROM_START
    for key, time in (("won", FROM_START), ("end", AT_END)):
        record["taken_at"][list(cards_in(_read_cards(parts[key])))] = time
    log = _log_of(parts)
    if len(log) >= AT_END:
        raise ValueError(f"log has {len(log)} turns; a round has fewer than {AT_END}")
    for t, move in enumerate(log):
        if move.onto and rules.building:
            _join(record, move.onto | (1 << move.card))
        record["played_at"][move.card] = t
        for card in cards_in(move.taken | (1 << move.card) if move.taken else 0):
            record["taken_at"][card] = t
    record["turn_index"] = len(log)
    if record["played"] != NOBODY:
        record["played_at"][record["played"]] = len(log)


def _log_of(parts: dict[str, str]) -> list[Move]:
    return [] if parts["log"] == "-" else [parse_move(entry) for entry in parts["log"].split(";")]


def _check_log_text(record: Any, parts: dict[str, str]) -> None:
    """Checks that a card's way, as the record keeps it, is what each part of a text says of it."""
    for turn, move in enumerate(_log_of(parts)):
        if logged_move(record, turn) != move:
            raise ValueError(f"log: {move} does not fit the table, or the rest of the log")
    for key, field, time in (
        *(("first", "played_at", FROM_START), ("won", "taken_at", FROM_START)),
        ("end", "taken_at", AT_END),
    ):
        cards = sum(_read_piles(parts[key]))
        if cards != card_set(np.flatnonzero(record[field] == time).tolist()):
            raise ValueError(f"{key}={parts[key]} does not fit the log")


def _store(key: str, target: Any, index: Any, value: int) -> None:
    try:
        target[index] = value
    except OverflowError:
        raise ValueError(f"{key}: {value} is out of range") from None


def _split(key: str, parts: dict[str, str], separator: str, number: int) -> Sequence[str]:
    values = parts[key].split(separator)
    if len(values) != number:
        raise ValueError(f"{key}={parts[key]!r} has {len(values)} parts; allowed: {number}")
    return values


def _read_piles(text: str) -> list[int]:
    return [] if text == "-" else parse_piles(text)


def _read_cards(text: str) -> int:
    return 0 if text == "-" else card_set(parse_cards(text))


def _number(key: str, text: str) -> int:
    if text == "-":
        return NOBODY
    if not re.fullmatch(r"\d{1,40}", text, re.ASCII):
        raise ValueError(f"{key}={text!r} is not a whole number")
    return int(text)
