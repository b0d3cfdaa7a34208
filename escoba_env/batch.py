"""``Batch``: many games of the same rules stepped together, and ``Views``, what seats know of them.

A thin, checked surface over the kernels: an array of game records and no rule of the game.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from escoba_env.cards import NUM_ACTIONS, cards_in
from escoba_env.checks import buffer, one_of, whole, wholes
from escoba_env.encoding import Encoding
from escoba_env.engine import batch as kernels
from escoba_env.engine.play import RANDOM_DEALER
from escoba_env.engine.record import GAME_OVER, NOBODY, STATE, copy_records, lower, pick_records
from escoba_env.engine.score import REWARDS
from escoba_env.notation import action_name
from escoba_env.rules import Rules, make_rules
from escoba_env.threads import MAX_THREADS, spread

Records = NDArray[np.void]
"""Array of dtype ``STATE``."""

MAX_SEED = 2**63 - 1
REWARD_TIMINGS = ("round_end", "as_earned")
MAX_GAMES = 2**31

_NO_ROWS = np.zeros((0, 0), np.float32)


class IllegalActionError(ValueError):
    """An action that the seat to move may not take; the game is as it was."""


def check_seed(seed: Any) -> int:
    """Returns a seed as an ``int``.

    Raises:
        ValueError: If it is not a whole number from 0 to ``MAX_SEED``.
    """
    return whole("seed", seed, 0, MAX_SEED)


def reward_kind(reward: str) -> int:
    """Returns the kernels' number of a kind of reward.

    Raises:
        ValueError: If it is unknown.
    """
    return REWARDS.index(one_of("reward", reward, REWARDS))


def pays_as_earned(reward_timing: str, reward: str) -> bool:
    """Whether escobas are rewarded at once.

    Raises:
        ValueError: If the timing is unknown, or does not go with the kind of reward.
    """
    one_of("reward_timing", reward_timing, REWARD_TIMINGS)
    if reward_timing == "as_earned" and reward == "win":
        raise ValueError(
            "reward_timing='as_earned' is not possible with reward='win', which comes at the end; "
            "allowed: reward 'margin' or 'points'"
        )
    return reward_timing == "as_earned"


def explain_illegal(record: Any, action: Any) -> str:
    """Says why an action is not legal in a game, and what is."""
    if record["phase"] == GAME_OVER:
        return f"action {action!r} is not possible: the game is over; start a new one with reset"
    legal = ", ".join(f"{action_name(a)} ({a})" for a in cards_in(record["legal"]))
    seat = int(record["turn"])
    who = f"seat {seat} may choose: {legal}"
    try:
        number = whole("action", action, 0, NUM_ACTIONS - 1)
    except ValueError:
        return f"action {action!r} is not an action; allowed: 0 to {NUM_ACTIONS - 1}; {who}"
    name = f"action {number} ({action_name(number)})"
    bit = 1 << number
    building = bool(record["heads"]) or bool(record["totals"].any())
    if record["played"] == NOBODY:
        if number == NUM_ACTIONS - 1:
            why = "no card has been chosen from the hand yet"
        elif int(record["hands"][seat]) & bit and building:
            why = (
                "the rules demand another card in hand: one that can capture (capture='hand'), or "
                "one that captures or has a place on the table, which this one has not (building)"
            )
        elif int(record["hands"][seat]) & bit:
            why = "another card in hand can capture and the rules demand it (capture='hand')"
        elif int(record["table"]) & bit:
            why = "a turn begins with a card from the hand, and this one lies on the table"
        else:
            why = "the card is not in the hand of the seat to move"
    elif number == NUM_ACTIONS - 1 and record["placing"]:
        why = "the card has to be set on a pile: there are too many piles to lay it beside them"
    elif record["placing"] and int(record["table"]) & bit:
        why = (
            "the card cannot be set there: it is no pile's lowest card, or the pile would total "
            "too much"
        )
    elif number == NUM_ACTIONS - 1 and record["picked"]:
        why = "the chosen card can capture, and table cards have been picked for it"
    elif number == NUM_ACTIONS - 1:
        why = "the chosen card can capture, so it may not be laid"
    elif int(record["picked"]) & bit:
        why = "the card has been picked already"
    elif int(record["table"]) & bit:
        why = "the card is in no capture that can still be completed"
    else:
        why = "the card is not on the table"
    return f"{name} is illegal: {why}; {who}"


def observation_buffers(
    encoding: Encoding, number: int, out: NDArray[Any] | None, masks: NDArray[np.int8] | None
) -> tuple[NDArray[Any], NDArray[np.int8], NDArray[Any]]:
    """Makes the arrays that ``number`` observations and masks are written to, or checks them.

    Returns:
        ``out``, ``masks``, and ``out`` as the kernels take it, (number, encoding.size).

    Raises:
        ValueError: If one has another shape or type, or ``out`` of planes is not contiguous.
    """
    shape = (number, *encoding.shape)
    if out is None:
        out = np.empty(shape, encoding.dtype)
    if masks is None:
        masks = np.empty((number, NUM_ACTIONS), np.int8)
    buffer("out", out, shape, encoding.dtype)
    buffer("masks", masks, (number, NUM_ACTIONS), np.int8)
    if out.ndim == 2:
        return out, masks, out
    if not out.flags.c_contiguous:
        raise ValueError("out is not contiguous; allowed: an array in one piece, C order")
    return out, masks, out.reshape(number, encoding.size)


class Views:
    """What seats know: one view for each of a number of decisions or observers.

    A view is a game record from which everything hidden from its seat has been erased: other hands
    (their counts stay), the stock's order, the random stream. Policies are given these and never
    games.

    Attributes:
        rules: Rules of the table.
        episode: ``"round"`` or ``"match"``.
        spec: The rules lowered for the kernels.
        records: Array (n,) of dtype ``STATE``; field ``viewer`` is the seat.
        keys: int64 (n,): a random key for each decision, from which a stochastic policy draws. It
            depends on the game and the decision alone, so results do not depend on batch size,
            order or threads.
    """

    __slots__ = ("episode", "keys", "records", "rules", "spec")

    def __init__(
        self,
        rules: Rules,
        episode: str,
        spec: NDArray[Any],
        records: Records,
        keys: NDArray[np.int64],
    ) -> None:
        self.rules = rules
        self.episode = episode
        self.spec = spec
        self.records = records
        self.keys = keys

    def __len__(self) -> int:
        return len(self.records)

    def __getitem__(self, index: Any) -> Views:
        """Returns some of the views; the index is a slice or an array."""
        return Views(
            self.rules, self.episode, self.spec, pick_records(self.records, index), self.keys[index]
        )

    def observe(self, encoding: Encoding) -> tuple[NDArray[Any], NDArray[np.int8]]:
        """Encodes every view.

        Args:
            encoding: An encoding for the rules of these views.

        Returns:
            Observations of the encoding's dtype, (n, *encoding.shape), and action masks, int8
            (n, 43).

        Raises:
            ValueError: If the encoding is for other rules.
        """
        if encoding.rules is not self.rules and encoding.rules != self.rules:
            raise ValueError(
                f"the encoding is for {encoding.rules!r}; allowed: that of the views' own rules, "
                f"{self.rules!r}"
            )
        out = np.empty((len(self), *encoding.shape), encoding.dtype)
        masks = np.empty((len(self), NUM_ACTIONS), np.int8)
        kernels.observe_games(
            self.spec,
            self.records,
            np.arange(len(self)),
            self.records["viewer"].astype(np.int64),
            encoding.plan,
            out.reshape(len(out), encoding.size),
            masks,
        )
        return out, masks


class Batch:
    """Many games of the same rules, stepped together.

    Every game has an index; game ``g`` of a seed is the same game in any batch of any size. A game
    that is over stays so until :meth:`restart` puts the next game into its slot.

    Args:
        num_games: Number of games, at least 1.
        rules: A preset's name, a ``Rules`` or a mapping of fields.
        episode: ``"round"`` (one round is a game) or ``"match"``.
        reward: ``"margin"``, ``"points"`` or ``"win"``.
        reward_timing: ``"round_end"``: all of a round's points are rewarded when it ends;
            ``"as_earned"``: its escobas at once (those that came with the deal, at the first
            pick), the rest at the end. The sums are equal.
        encoding: Name of the encoding that :meth:`observe` writes; see ``Encoding``.
        memory: ``"perfect"`` or ``"visible"``: whether observations know which cards have been
            captured.
        dtype: ``"float32"`` or ``"uint8"``: the type of observations.
        skip_forced: Whether decisions with a single legal action are played right away, so that
            every decision that is left is a choice.
        threads: Threads that share the games of a call, at most; a call over fewer than 256 games
            is not worth sharing. Results do not depend on it.
        seed: Seed of the games' random streams, a whole number from 0.
        **fields: Fields of ``Rules`` that replace those of ``rules``.

    Raises:
        ValueError: If an argument is not possible, by name.
    """

    def __init__(
        self,
        num_games: int,
        rules: Any = "classic",
        *,
        episode: str = "round",
        reward: str = "margin",
        reward_timing: str = "round_end",
        encoding: str = "compact",
        memory: str = "perfect",
        dtype: str = "float32",
        skip_forced: bool = False,
        threads: int = 1,
        seed: int = 0,
        **fields: Any,
    ) -> None:
        num_games = whole("num_games", num_games, 1, MAX_GAMES)
        self.rules = make_rules(rules, **fields)
        self.episode = episode
        self.reward = reward
        if not isinstance(skip_forced, bool | np.bool_):
            raise ValueError(f"skip_forced {skip_forced!r} is not possible; allowed: true or false")
        self.skip_forced = bool(skip_forced)
        self.threads = whole("threads", threads, 1, MAX_THREADS)
        self.spec = lower(self.rules, episode)
        self.encoding = Encoding(encoding, self.rules, episode, memory, dtype)
        self.states: Records = np.zeros(num_games, STATE)
        as_earned = pays_as_earned(reward_timing, reward)
        # What kernels that step games are told beside the actions.
        self.step_settings = (self.skip_forced, reward_kind(reward), as_earned)
        self._all = np.arange(num_games)
        self.reset(seed)

    def __len__(self) -> int:
        return len(self.states)

    def __repr__(self) -> str:
        return (
            f"<Batch of {len(self)} games, {self.rules!r}, episode={self.episode!r}, "
            f"{int(self.over.sum())} over>"
        )

    # -- starting ---------------------------------------------------------------------------

    def reset(
        self,
        seed: int = 0,
        *,
        game_indices: ArrayLike | None = None,
        dealers: ArrayLike | None = None,
    ) -> None:
        """Starts new games in all slots.

        Args:
            seed: Seed of the random streams.
            game_indices: int64 (num_games,): which game of the seed each slot plays; the same
                index twice is the same deal twice. Default: 0, 1, 2 ...
            dealers: First dealer of each game; default: drawn from its stream.
        """
        shape = self._all.shape
        seed = check_seed(seed)
        indices = self._all
        if game_indices is not None:
            indices = wholes("game_indices", game_indices, shape, 0, MAX_SEED)
        first = np.full(shape, RANDOM_DEALER)
        if dealers is not None:
            first = wholes("dealers", dealers, shape, 0, self.rules.players - 1)
        # Everything has been checked before anything changes.
        self._seed = seed
        self._start(self._all, indices, first)

    def restart(self, games: ArrayLike | None = None) -> None:
        """Puts the next games of the seed into slots; default: into those whose game is over.

        The game of a slot is followed by the one ``num_games`` further on.
        """
        slots = np.flatnonzero(self.over) if games is None else self._slots(games)
        indices = self.states["game_index"][slots] + len(self)
        self._start(slots, indices, np.full(slots.shape, RANDOM_DEALER))

    def _start(
        self, slots: NDArray[np.int64], indices: NDArray[np.int64], dealers: NDArray[np.int64]
    ) -> None:
        def start(a: int, b: int) -> None:
            part = slots[a:b]
            kernels.start_games(
                self.spec, self.states, part, self._seed, indices[a:b], dealers[a:b]
            )
            if self.skip_forced:
                kernels.settle_games(self.spec, self.states, part)

        spread(start, len(slots), self.threads)

    # -- looking ----------------------------------------------------------------------------

    @property
    def turn(self) -> NDArray[np.int64]:
        """Seat to move in each game, int64 (num_games,)."""
        return self.states["turn"].astype(np.int64)

    @property
    def over(self) -> NDArray[np.bool_]:
        """Whether each game is over, bool (num_games,)."""
        over: NDArray[np.bool_] = self.states["phase"] == GAME_OVER
        return over

    def observe(
        self,
        games: ArrayLike | None = None,
        seats: ArrayLike | None = None,
        *,
        out: NDArray[Any] | None = None,
        masks: NDArray[np.int8] | None = None,
    ) -> tuple[NDArray[Any], NDArray[np.int8]]:
        """Writes observations and action masks.

        Args:
            games: Slots to observe, int (n,); default: all.
            seats: Seat that observes in each; default: the seat to move.
            out: Array (n, *encoding.shape) of the encoding's dtype to write into; default: a new
                one.
            masks: int8 (n, 43) to write into; default: a new array.

        Returns:
            ``out`` and ``masks``. A seat that is not to move has a mask of zeros; the rows of a
            game that is over have ones, so that a softmax over them is defined.

        Raises:
            ValueError: If an argument has the wrong type or shape; ``out`` of planes must be
                contiguous too.
        """
        slots = self._all if games is None else self._slots(games)
        observers = self._seats(slots, seats)
        out, masks, rows = observation_buffers(self.encoding, len(slots), out, masks)
        self._observe(slots, observers, rows, masks)
        return out, masks

    def legal_masks(self, games: ArrayLike | None = None) -> NDArray[np.int8]:
        """Returns the action mask of the seat to move, int8 (n, 43); ones where a game is over."""
        slots = self._all if games is None else self._slots(games)
        masks = np.empty((len(slots), NUM_ACTIONS), np.int8)
        self._observe(slots, self.states["turn"][slots].astype(np.int64), _NO_ROWS, masks)
        return masks

    def _observe(
        self,
        slots: NDArray[np.int64],
        seats: NDArray[np.int64],
        rows: NDArray[Any],
        masks: NDArray[np.int8],
    ) -> None:
        def observe(a: int, b: int) -> None:
            kernels.observe_games(
                self.spec,
                self.states,
                slots[a:b],
                seats[a:b],
                self.encoding.plan,
                rows[a:b],
                masks[a:b],
            )

        spread(observe, len(slots), self.threads)

    def views(self, games: ArrayLike | None = None, seats: ArrayLike | None = None) -> Views:
        """Returns the views of one seat (default: the seat to move) of each of some games."""
        slots = self._all if games is None else self._slots(games)
        viewers = self._seats(slots, seats)
        records = np.empty(len(slots), STATE)
        keys = np.empty(len(slots), np.int64)

        def view(a: int, b: int) -> None:
            kernels.view_games(
                self.spec, self.states, slots[a:b], viewers[a:b], records[a:b], keys[a:b]
            )

        spread(view, len(slots), self.threads)
        return Views(self.rules, self.episode, self.spec, records, keys)

    def whole_games(self, games: ArrayLike | None = None) -> Views:
        """Returns some games with every card known, in the form of views with their keys.

        For policies that cheat (``cheat:search``) and for nobody else; ``viewer`` is ``NOBODY``.
        """
        slots = self._all if games is None else self._slots(games)
        views = self.views(slots)
        views.records = pick_records(self.states, slots)
        return views

    # -- playing ----------------------------------------------------------------------------

    def step(
        self, actions: ArrayLike, games: ArrayLike | None = None
    ) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
        """Takes one action in each of some games.

        Args:
            actions: Action ids, int (n,).
            games: Slots, int (n,), none twice; default: all, none of which may be over.

        Returns:
            Rewards, float32 (n, players): what every seat earned in this step (with
            ``skip_forced``: in it and the forced decisions after it); and whether each game is
            over, bool (n,).

        Raises:
            IllegalActionError: If an action is illegal; then no game has been changed.
            ValueError: If an argument has the wrong type or shape.
        """
        slots = self._all
        if games is not None:
            slots = self._slots(games)
            seen = np.zeros(len(self), np.bool_)
            seen[slots] = True
            if np.count_nonzero(seen) != len(slots):
                raise ValueError(f"games {games!r}; allowed: no slot twice")
        # Whatever is a whole number is an action that can be explained, however large.
        chosen = wholes("actions", actions, slots.shape)
        bad = kernels.first_illegal(self.states, slots, chosen)
        if bad >= 0:
            game = int(slots[bad])
            reason = explain_illegal(self.states[game], int(np.asarray(actions)[bad]))
            raise IllegalActionError(f"game {game}: {reason}")
        rewards = np.empty((len(slots), self.rules.players), np.float32)
        over = np.empty(len(slots), np.bool_)

        def step(a: int, b: int) -> None:
            kernels.step_games(
                self.spec,
                self.states,
                slots[a:b],
                chosen[a:b],
                *self.step_settings,
                rewards[a:b],
                over[a:b],
            )

        spread(step, len(slots), self.threads)
        return rewards, over

    def play_random(self, decisions: int) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Plays random legal actions in all games, and goes on to the next game when one is over.

        Nothing is observed, so this is how fast games can be played at all. What is played depends
        on each game, on where it stands and on the slot's next games, which are those of
        :meth:`restart`; not on ``threads`` or on other slots. Two calls draw other actions than one
        of as many decisions.

        Args:
            decisions: Actions to take in each game, forced ones among them.

        Returns:
            Margins of each seat, summed over the rounds that have ended, float64
            (num_games, players); and the number of games that have ended, int64 (num_games,).

        Raises:
            ValueError: If ``decisions`` is no whole number from 1, or a game is over.
        """
        decisions = whole("decisions", decisions, 1, 2**31)
        if self.over.any():
            raise ValueError(
                f"game {int(np.argmax(self.over))} is over; allowed: only games that are not, "
                f"after restart"
            )
        returns = np.zeros((len(self), self.rules.players))
        finished = np.zeros(len(self), np.int64)

        def play(a: int, b: int) -> None:
            kernels.play_random(
                self.spec,
                self.states,
                self._all[a:b],
                decisions,
                len(self),
                returns[a:b],
                finished[a:b],
            )

        spread(play, len(self), self.threads)
        if self.skip_forced:
            kernels.settle_games(self.spec, self.states, self._all)
        return returns, finished

    def clone(self) -> Batch:
        """Returns an independent copy of the batch with all games as they are."""
        other = object.__new__(Batch)
        other.__dict__.update(self.__dict__)
        other.states = copy_records(self.states)
        return other

    def _slots(self, games: ArrayLike) -> NDArray[np.int64]:
        mask = isinstance(games, np.ndarray) and games.dtype == np.bool_
        if mask and np.shape(games) == self._all.shape:
            return np.flatnonzero(games)
        return wholes("games", games, None, 0, len(self) - 1)

    def _seats(self, slots: NDArray[np.int64], seats: ArrayLike | None) -> NDArray[np.int64]:
        if seats is None:
            return self.states["turn"][slots].astype(np.int64)
        return wholes("seats", seats, slots.shape, 0, self.rules.players - 1)
