"""``Replay``: a game that was played, as a versioned file that people can read.

A replay is JSON: the rules, where the cards came from, and each round's dealer, deck and moves. It
is whole in itself: what a seed deals is written out, so a game from a real table can be written
down too. All rules are written; one that a file leaves out, such as one that was not thought of
when the file was written, is that of ``classic``. What is read is played again, so a replay that
was loaded is a game by the rules.

What a file says in two places must agree: each key of its JSON stands once; every deck is the pack
of the rules, and is not dealt again by them; every move is legal where it stands; rounds follow on
each other while the match goes on, each with the dealer that is next; there is a policy for each
seat or none; and ``points`` are those of the moves, or null while the game goes on. ``seed`` and
``game`` say from which stream policies drew: the decks may be others than they deal.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from escoba_env.batch import MAX_SEED
from escoba_env.cards import card_name, parse_cards
from escoba_env.checks import each_key_once, path_of, whole
from escoba_env.engine import batch as kernels
from escoba_env.engine.record import NOBODY, copy_records
from escoba_env.files import write_whole
from escoba_env.game import Game
from escoba_env.notation import Move, parse_move
from escoba_env.policies import PolicyLike, load_policy, name_of
from escoba_env.policies.asking import ask
from escoba_env.position import logged_move
from escoba_env.rules import Rules, make_rules

FORMAT = "escoba-replay"
VERSION = 1
MAX_BYTES = 1 << 24
"""A file larger than this is refused before it is read."""


class ReplayError(ValueError):
    """A replay that is damaged, foreign, of another version, or not a game by its rules."""


class _Round(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    dealer: int
    deck: str
    moves: list[str]


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    format: Literal["escoba-replay"]
    version: Literal[1]
    rules: dict[str, Any]
    episode: Literal["round", "match"]
    policies: list[str] | None
    seed: Annotated[int, Field(ge=0, le=MAX_SEED)]
    game: Annotated[int, Field(ge=0, le=MAX_SEED)]
    scores: list[int | float]
    rounds: Annotated[list[_Round], Field(min_length=1)]
    points: list[int | float] | None


@dataclass(frozen=True)
class ReplayRound:
    """A round of a replay.

    Attributes:
        dealer: Seat that dealt.
        deck: The pack in the order in which it was dealt, as ``Game.reset`` takes it.
        moves: The turns that were played, from the eldest hand on.
    """

    dealer: int
    deck: tuple[int, ...]
    moves: tuple[Move, ...]


@dataclass(frozen=True)
class Replay:
    """A game that was played, to its end or not; see :func:`play_game` and :class:`Recording`.

    Attributes:
        rules: Rules of the table.
        episode: ``"round"`` or ``"match"``.
        seed: Seed of the random stream, from which policies draw.
        index: Which game of the seed.
        scores: Match score of each side before the first round.
        rounds: The rounds, the last of which may be unfinished.
        policies: Who sat in each seat, if that is known.
    """

    rules: Rules
    episode: str
    seed: int
    index: int
    scores: tuple[float, ...]
    rounds: tuple[ReplayRound, ...]
    policies: tuple[str, ...] | None = None

    @property
    def turns(self) -> int:
        """Number of turns that were played, in all rounds together."""
        return sum(len(one.moves) for one in self.rounds)

    def games(self) -> Iterator[Game]:
        """Gives the game before each turn, and at last as it was left.

        It is one ``Game`` that goes on; ``clone`` it to keep it.

        Raises:
            ReplayError: If a round cannot have been dealt or a move is illegal.
        """
        game = Game(self.rules, episode=self.episode, seed=self.seed)
        for number, one in enumerate(self.rounds):
            where = f"round {number + 1}"
            try:
                self._deal(game, number)
                for turn, move in enumerate(one.moves):
                    where = f"round {number + 1}, turn {turn + 1}"
                    _check_round(game, number)
                    yield game
                    game.play(move)
            except ValueError as error:
                raise ReplayError(f"{where}: {error}") from None
        yield game

    def _deal(self, game: Game, number: int) -> None:
        one = self.rounds[number]
        deck = [card_name(card) for card in one.deck]
        if number == 0:
            game.reset(
                self.seed, index=self.index, deck=deck, dealer=one.dealer, scores=self.scores
            )
        else:
            _check_round(game, number)
            game.deal(deck)
        if game.dealer != one.dealer:
            raise ValueError(f"seat {game.dealer} deals, not seat {one.dealer}")
        if tuple(_deck_of(game)) != one.deck:
            raise ValueError("its first table is dealt again (initial_table='redeal')")

    def game(self, turn: int | None = None) -> Game:
        """Returns the game before a turn.

        Args:
            turn: Number of turns played before it, in all rounds together; default: as the game
                was left.

        Raises:
            ValueError: If there is no such turn.
        """
        wanted = self.turns if turn is None else whole("turn", turn, 0, self.turns)
        for number, game in enumerate(self.games()):
            if number == wanted:
                return game.clone()
        raise AssertionError("games() gives one more than there are turns")

    def as_dict(self) -> dict[str, Any]:
        """Returns the replay as plain values for JSON: the content of its file."""
        game = self.game()
        return {
            "format": FORMAT,
            "version": VERSION,
            "rules": self.rules.as_dict(),
            "episode": self.episode,
            "policies": None if self.policies is None else list(self.policies),
            "seed": self.seed,
            "game": self.index,
            "scores": list(self.scores),
            "rounds": [
                {
                    "dealer": one.dealer,
                    "deck": " ".join(card_name(card) for card in one.deck),
                    "moves": [str(move) for move in one.moves],
                }
                for one in self.rounds
            ],
            "points": game.scores if game.is_over else None,
        }

    @classmethod
    def from_dict(cls, content: Any) -> Replay:
        """Reads what :meth:`as_dict` has returned, and plays it again.

        Raises:
            ReplayError: If it is no replay of this version, or not a game by its rules.
        """
        version = content.get("version") if isinstance(content, dict) else None
        if not isinstance(content, dict) or content.get("format") != FORMAT:
            raise ReplayError(f'it is no replay: it lacks "format": "{FORMAT}"')
        if version != VERSION:
            raise ReplayError(f"it is of version {version!r}; this version reads {VERSION}")
        try:
            file = _File.model_validate(content)
        except ValidationError as error:
            faults = "; ".join(
                f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}" for fault in error.errors()
            )
            raise ReplayError(f"it is no replay: {faults}") from None
        try:
            replay = cls._from_file(file)
            game = replay.game()
        except ReplayError:
            raise
        except ValueError as error:
            raise ReplayError(str(error)) from None
        points = game.scores if game.is_over else None
        if points != file.points:
            raise ReplayError(f"points: {file.points}; by its moves they are {points}")
        return replay

    @classmethod
    def _from_file(cls, file: _File) -> Replay:
        rules = make_rules(file.rules)
        if file.policies is not None:
            if len(file.policies) != rules.players:
                raise ValueError(f"policies: {len(file.policies)}; allowed: {rules.players}")
            _check_names(file.policies)
        rounds = [
            ReplayRound(
                one.dealer,
                tuple(parse_cards(one.deck)),
                tuple(parse_move(move) for move in one.moves),
            )
            for one in file.rounds
        ]
        return cls(
            rules,
            file.episode,
            file.seed,
            file.game,
            tuple(float(score) for score in file.scores),
            tuple(rounds),
            None if file.policies is None else tuple(file.policies),
        )

    def save(self, path: str | Path) -> None:
        """Writes the replay into a file, whole.

        Raises:
            ValueError: If it cannot be written.
        """
        write_whole(path, json.dumps(self.as_dict(), indent=2, ensure_ascii=False) + "\n")

    @classmethod
    def load(cls, path: str | Path) -> Replay:
        """Reads a replay from a file, and plays it again.

        Raises:
            ReplayError: If it cannot be read, or is no replay; see :meth:`from_dict`.
        """
        try:
            file = path_of("replay", path)
        except ValueError as error:
            raise ReplayError(str(error)) from None
        try:
            size = file.stat().st_size
            text = file.read_bytes() if size <= MAX_BYTES else b"null"
            content = json.loads(text, object_pairs_hook=each_key_once)
        except OSError as error:
            raise ReplayError(f"replay {path} cannot be read: {error.strerror}") from None
        except (ValueError, RecursionError) as error:
            raise ReplayError(f"replay {path} is not JSON: {error}") from None
        if size > MAX_BYTES:
            raise ReplayError(f"replay {path} is larger than {MAX_BYTES} bytes")
        try:
            return cls.from_dict(content)
        except ReplayError as error:
            raise ReplayError(f"replay {path}: {error}") from None


class Recording:
    """Writes down a game while it is played.

    Args:
        game: A game at the start of a round. Whoever plays it calls :meth:`step` here instead.
        policies: Who sits in each seat, if that is known.

    Raises:
        ValueError: If the round has begun, or the names are not one for each seat, each a line of
            text.
    """

    def __init__(self, game: Game, policies: Sequence[str] | None = None) -> None:
        record = game.record
        if record["turn_index"] or record["played"] != NOBODY or record["round_index"]:
            raise ValueError("the game has begun; allowed: a recording from its first card on")
        if policies is not None and len(policies) != game.rules.players:
            raise ValueError(f"{len(policies)} policies; allowed: one a seat, {game.rules.players}")
        if policies is not None:
            _check_names(policies)
        self.game = game
        self._policies = None if policies is None else tuple(policies)
        self._scores = tuple(game.scores)
        self._rounds = [(game.dealer, tuple(_deck_of(game)))]
        self._moves: list[list[Move]] = [[]]

    def step(self, action: int) -> None:
        """Takes one action for the seat to move; see ``Game.step``."""
        game = self.game
        before = copy_records(game.states)
        game.step(action)
        at = int(before["turn_index"][0])
        # A turn that ends a round of a match is not in the record of the next round.
        kernels.apply_pick(game.spec, before, int(action))
        if before["turn_index"][0] == at:
            return
        move = logged_move(before[0], at)
        assert move is not None
        self._moves[-1].append(move)
        if int(game.record["round_index"]) == len(self._rounds):
            self._rounds.append((game.dealer, tuple(_deck_of(game))))
            self._moves.append([])

    @property
    def replay(self) -> Replay:
        """The game so far; a turn that is not finished is left out."""
        rounds = [
            ReplayRound(dealer, deck, tuple(moves))
            for (dealer, deck), moves in zip(self._rounds, self._moves, strict=True)
        ]
        return Replay(
            self.game.rules,
            self.game.episode,
            self.game.seed,
            int(self.game.record["game_index"]),
            self._scores,
            tuple(rounds),
            self._policies,
        )


def play_game(
    policies: Sequence[PolicyLike],
    rules: Any = "classic",
    *,
    episode: str = "round",
    seed: int = 0,
    index: int = 0,
    **fields: Any,
) -> Replay:
    """Plays a game and writes it down; the same game as in ``evaluate`` with these seats.

    Args:
        policies: Who plays in each seat; anything that ``load_policy`` takes.
        rules: A preset's name, a ``Rules`` or a mapping of fields.
        episode: ``"round"`` or ``"match"``.
        seed: Seed of the deals.
        index: Which game of the seed.
        **fields: Fields of ``Rules`` that replace those of ``rules``.

    Raises:
        IllegalActionError: If a policy, named in the message, chooses an illegal action.
        ValueError: If an argument is not possible, by name, or a policy answers with something
            else than an action.
    """
    given: object = policies
    if isinstance(given, str | bytes) or not isinstance(given, Sequence):
        raise ValueError(f"policies {given!r} are not possible; allowed: a list, one a seat")
    game = Game(rules, episode=episode, seed=seed, **fields)
    game.reset(seed, index=index)
    names = [name_of(policy) for policy in policies]
    recording = Recording(game, names)
    seats = [load_policy(policy) for policy in policies]
    while not game.is_over:
        legal = game.legal_actions()
        action = legal[0]
        if len(legal) > 1:
            action = int(ask(seats[game.turn], game.view(game.turn))[0])
        recording.step(action)
    return recording.replay


def _check_round(game: Game, number: int) -> None:
    if game.is_over or int(game.record["round_index"]) != number:
        at = "the game is over" if game.is_over else f"round {game.record['round_index'] + 1} is on"
        raise ValueError(f"round {number + 1} is not on: {at}")


def _check_names(names: Sequence[Any]) -> None:
    """Checks that policies have names that can be told apart in a list of lines."""
    for name in names:
        if not isinstance(name, str) or not name.strip() or not name.isprintable():
            raise ValueError(f"policies: {name!r}; allowed: names, each a line of text")


def _deck_of(game: Game) -> list[int]:
    return [int(card) for card in game.record["stock"][: game.rules.pack_size]]
