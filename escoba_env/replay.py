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
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from escoba_env.batch import MAX_SEED
from escoba_env.cards import card_name, parse_cards
from escoba_env.checks import each_key_once, path_of, quoted, real, whole
from escoba_env.engine import batch as kernels
from escoba_env.engine.record import NOBODY, copy_records
from escoba_env.files import read_whole, write_whole
from escoba_env.game import Game
from escoba_env.notation import Move, parse_move
from escoba_env.policies import PolicyLike, load_policy, name_of
from escoba_env.policies.asking import ask
from escoba_env.position import MAX_COUNT, logged_move
from escoba_env.rules import Rules, make_rules

FORMAT = "escoba-replay"
VERSION = 1
MAX_BYTES = 1 << 24
"""A file larger than this is refused before it is read."""
MAX_TEXT = 1000
"""Characters of a deck, a move or a message: several times what the longest takes."""
MAX_MOVES = 64
"""Moves of a round, which plays no card twice."""
MAX_FAULTS = 8
"""Faults of a file that are named."""


class ReplayError(ValueError):
    """A replay that is damaged, foreign, of another version, or not a game by its rules."""


class _Round(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    dealer: Annotated[int, Field(ge=0, le=3)]
    deck: Annotated[str, Field(max_length=MAX_TEXT)]
    moves: Annotated[list[Annotated[str, Field(max_length=MAX_TEXT)]], Field(max_length=MAX_MOVES)]


_Score = Annotated[int | float, Field(ge=0, le=MAX_COUNT)]


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    format: Literal["escoba-replay"]
    version: Literal[1]
    rules: dict[str, Any]
    episode: Literal["round", "match"]
    policies: list[str] | None
    seed: Annotated[int, Field(ge=0, le=MAX_SEED)]
    game: Annotated[int, Field(ge=0, le=MAX_SEED)]
    scores: list[_Score]
    rounds: Annotated[list[_Round], Field(min_length=1)]
    points: list[_Score] | None


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


@dataclass(frozen=True, kw_only=True)
class PlayedTurn:
    """A turn of a replay.

    Attributes:
        number: Number of turns played before it, in all rounds together.
        round_index: Rounds before its own.
        seat: Who moved.
        move: The move.
        escobas: Number of escobas that it made.
        before: The game before it.
    """

    number: int
    round_index: int
    seat: int
    move: Move
    escobas: int
    before: Game


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

    def __repr__(self) -> str:
        who = f", {' against '.join(map(quoted, self.policies))}" if self.policies else ""
        played = f"{self.turns} turns in {len(self.rounds)} rounds"
        return (
            f"<Replay {self.rules.title}, {self.episode}: game {self.index} of seed {self.seed}, "
            f"{played}{who}>"
        )

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

    def played(self) -> Iterator[PlayedTurn]:
        """Gives every turn that was played.

        Raises:
            ReplayError: As for :meth:`games`.
        """
        turns = [(index, move) for index, one in enumerate(self.rounds) for move in one.moves]
        # The last game has nothing played after it.
        for number, (game, (index, move)) in enumerate(zip(self.games(), turns, strict=False)):
            seat, after = game.turn, copy_records(game.states)
            try:
                # One that ends a round is followed by the next deal: only its own record counts.
                for pick in game.picks_of(move):
                    kernels.apply_pick(game.spec, after, pick)
            except ValueError as error:
                where = f"round {index + 1}, turn {number + 1}"
                raise ReplayError(f"{where}: {error}") from None
            yield PlayedTurn(
                number=number,
                round_index=index,
                seat=seat,
                move=move,
                escobas=int(after["escobas"][0, seat]) - int(game.record["escobas"][seat]),
                before=game.clone(),
            )

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
        if not isinstance(content, dict) or content.get("format") != FORMAT:
            raise ReplayError(f'it is no replay: it lacks "format": "{FORMAT}"')
        version = content.get("version")
        # True is 1, too.
        if type(version) is not int or version != VERSION:
            raise ReplayError(f"it is of version {quoted(version)}; this version reads {VERSION}")
        try:
            file = _File.model_validate(content)
        except ValidationError as error:
            faults = [
                f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}"
                for fault in error.errors(include_url=False, include_input=False)
            ]
            raise ReplayError(_cut(f"it is no replay: {_listed(faults)}")) from None
        try:
            replay = cls._from_file(file)
            game = replay.game()
        except ValueError as error:
            raise ReplayError(_cut(str(error))) from None
        except RecursionError:
            raise ReplayError(
                "rules: a value is nested too deeply; allowed: numbers, words and lists of them"
            ) from None
        points = game.scores if game.is_over else None
        if points != file.points:
            raise ReplayError(f"points: {quoted(file.points)}; by its moves they are {points}")
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
            tuple(real("score", score, 0, MAX_COUNT) for score in file.scores),
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
            text = read_whole(path, MAX_BYTES, name="replay")
        except ValueError as error:
            raise ReplayError(str(error)) from None
        try:
            content = json.loads(text, object_pairs_hook=each_key_once)
        except (ValueError, RecursionError) as error:
            raise ReplayError(f"replay {path} is not JSON: {error}") from None
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
        ValueError: If the game is none or has begun, or the names are not a list of one for each
            seat, each a line of text.
    """

    def __init__(self, game: Game, policies: Sequence[str] | None = None) -> None:
        given: object = game
        if not isinstance(given, Game):
            raise ValueError(f"game {quoted(given)} is not possible; allowed: a Game")
        record = game.record
        if record["turn_index"] or record["played"] != NOBODY or record["round_index"]:
            raise ValueError("the game has begun; allowed: a recording from its first card on")
        if policies is not None:
            _check_seats(policies)
            if len(policies) != game.rules.players:
                raise ValueError(
                    f"{len(policies)} policies; allowed: one a seat, {game.rules.players}"
                )
            _check_names(policies)
        self.game = game
        self._policies = None if policies is None else tuple(policies)
        self._scores = tuple(game.scores)
        self._rounds = [(game.dealer, tuple(_deck_of(game)))]
        self._moves: list[list[Move]] = [[]]

    def __repr__(self) -> str:
        return f"<Recording of {self.game!r}>"

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
    _check_seats(policies)
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


def recorded_games(folder: str | Path) -> dict[int, Path]:
    """Finds the games in a folder that ``escoba record --games`` has written.

    Returns:
        Their files by number, in the order of the numbers.

    Raises:
        ReplayError: If there are none, or the folder cannot be read.
    """
    found = {}
    try:
        for path in path_of("folder", folder).iterdir():
            number = _GAME_FILE.fullmatch(path.name)
            if number:
                found[int(number[1])] = path
    except OSError as error:
        raise ReplayError(f"folder {folder} cannot be read: {error.strerror}") from None
    if not found:
        raise ReplayError(f"folder {folder} holds no games; allowed: files game-0.json and so on")
    return dict(sorted(found.items()))


def game_file(folder: str | Path, index: int) -> Path:
    """Returns the file of a game in a folder of games."""
    return Path(folder) / f"game-{index}.json"


_GAME_FILE = re.compile(r"game-(0|[1-9][0-9]{0,18})\.json")


def _listed(faults: Sequence[str]) -> str:
    more = [f"{len(faults) - MAX_FAULTS} more"] if len(faults) > MAX_FAULTS else []
    return "; ".join([*faults[:MAX_FAULTS], *more])


def _cut(text: str) -> str:
    return text if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]}..."


def _check_seats(policies: Any) -> None:
    """Checks that policies are a list."""
    if isinstance(policies, str | bytes) or not isinstance(policies, Sequence):
        raise ValueError(
            f"policies {quoted(policies)} are not possible; allowed: a list, one a seat"
        )


def _check_names(names: Sequence[Any]) -> None:
    """Checks that policies have names that can be told apart in a list of lines."""
    for name in names:
        right = isinstance(name, str) and name.strip() and name.isprintable()
        if not right or len(name) > MAX_TEXT:
            raise ValueError(f"policies: {quoted(name)}; allowed: names, each a line of text")


def _deck_of(game: Game) -> list[int]:
    return [int(card) for card in game.record["stock"][: game.rules.pack_size]]
