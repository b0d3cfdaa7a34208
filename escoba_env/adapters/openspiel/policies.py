"""Policies both ways: OpenSpiel's bots and policies play here, and this package's play there."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from open_spiel.python import policy as spiel_policies

from escoba_env.adapters.openspiel.game import EscobaGame, EscobaState, rebuilt
from escoba_env.batch import IllegalActionError, Views
from escoba_env.cards import LAY, cards_in
from escoba_env.checks import quoted, whole
from escoba_env.engine.record import NOBODY
from escoba_env.policies import Policy, RandomPolicy, load_policy
from escoba_env.position import logged_move

MAX_BOT_SEED = 2**31 - 1
MOST_TRIES = 10_000
"""How often hidden cards are drawn until they explain what was played."""


class EscobaPolicy(spiel_policies.Policy):
    """A policy of this package as an OpenSpiel policy: for exploitability, or as an opponent.

    ``random``, and a learned policy with ``sample=true``, give their probabilities. Any other
    policy gives probability 1 to what it chooses, by a key made from the information state where it
    draws at random: a fixed strategy.

    Args:
        game: A ``python_escoba``.
        policy: Anything that ``load_policy`` takes.

    Raises:
        ValueError: If there is no such policy, or it plays from more than a seat knows.
    """

    def __init__(self, game: EscobaGame, policy: str | Policy) -> None:
        super().__init__(game, list(range(game.num_players())))
        self.policy = load_policy(policy)
        if getattr(self.policy, "cheats", False):
            raise ValueError(
                f"policy {quoted(self.policy.name)} sees hidden cards, which no information state "
                f"has; allowed: policies that are given views"
            )
        self._known: dict[str, dict[int, float]] = {}

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.policy!r}>"

    def action_probabilities(
        self, state: EscobaState, player_id: int | None = None
    ) -> dict[int, float]:
        """Returns the probability of each legal action.

        Args:
            state: A state in which a player is to move.
            player_id: That player.
        """
        player = state.current_player()
        if player_id not in (None, player):
            raise ValueError(
                f"player_id {quoted(player_id)} is not to move; allowed: {quoted(player)}"
            )
        text = state.information_state_string(player)
        if text not in self._known:
            self._known[text] = self._ask(state, player, text)
        return dict(self._known[text])

    def _ask(self, state: EscobaState, player: int, text: str) -> dict[int, float]:
        legal = state.legal_actions()
        if len(legal) == 1:
            return {legal[0]: 1.0}
        if isinstance(self.policy, RandomPolicy):
            return dict.fromkeys(legal, 1 / len(legal))
        key = int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big") >> 1
        view = state.view(player, key)
        if getattr(self.policy, "sample", False):
            weights = self.policy.probabilities(view)[0, legal].astype(np.float64)  # type: ignore[attr-defined]
            return dict(zip(legal, (weights / weights.sum()).tolist(), strict=True))
        chosen = int(self.policy.act(view)[0])
        if chosen not in legal:
            raise IllegalActionError(
                f"policy {quoted(self.policy.name)} chose {chosen}; legal actions: {legal}"
            )
        return {action: float(action == chosen) for action in legal}


class OpenSpielPolicy:
    """An OpenSpiel bot or policy as a policy of this package: for ``evaluate`` and as an opponent.

    The round is played again from what the view's seat knows, with the cards that it does not know
    drawn at random, and the bot is asked in the state that this leads to. A view does not tell in
    which order cards were picked within a turn: they are picked in the order of their ids, and the
    seat's own as an OpenSpiel policy would rather have picked them. In a match the bot is asked
    about the present round.

    Args:
        game: A ``python_escoba`` with the rules of the table; with ``dealer=last`` seats are turned
            so that the last one deals.
        player: What is asked: an OpenSpiel policy, which has ``action_probabilities(state)``, or a
            function that makes a bot for a player and a seed, ``player(player_id, seed)``. A bot is
            made for every decision, so that it depends on the view alone.
        name: Name for tables.
    """

    def __init__(
        self, game: EscobaGame, player: Any | Callable[[int, int], Any], name: str = "openspiel"
    ) -> None:
        self.game = game
        self.name = name
        self._policy = player if hasattr(player, "action_probabilities") else None
        self._make_bot = player
        if self._policy is None and not callable(player):
            raise ValueError(
                f"player {quoted(player)} is not possible; allowed: an OpenSpiel policy, or a "
                f"function of a player and a seed that returns a bot"
            )

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {quoted(self.name)}>"

    def act(self, views: Views) -> NDArray[np.int64]:
        """Chooses an action for each view; see ``Policy.act``.

        Raises:
            ValueError: If the views are of other rules than the game, or of a position whose round
                was not played from its deal.
        """
        if views.rules != self.game.rules:
            raise ValueError(
                f"the views are of {views.rules!r}; allowed: the rules of the game, "
                f"{self.game.rules!r}"
            )
        actions = np.empty(len(views), np.int64)
        for i, key in enumerate(views.keys):
            rng = np.random.default_rng(int(key))
            state = self.state_of(views[i : i + 1], rng)
            if self._policy is not None:
                chances = self._policy.action_probabilities(state)
                point = rng.random() * sum(chances.values())
                for action, chance in sorted(chances.items()):
                    actions[i] = action
                    point -= chance
                    if point < 0:
                        break
            else:
                seed = int(rng.integers(MAX_BOT_SEED))
                actions[i] = self._make_bot(state.current_player(), seed).step(state)
        return actions

    def state_of(self, views: Views, rng: np.random.Generator) -> EscobaState:
        """Returns a state that fits a view of the seat to move.

        Args:
            views: One view.
            rng: Draws the cards that its seat does not know.

        Raises:
            ValueError: If its round was not played from its deal.
        """
        whole("number of views", len(views), 1, 1)
        seen = views.records[0]
        state = None
        try:
            state = self._play_again(seen, rng)
        except (KeyError, IndexError, ValueError) as error:
            cause: Exception | None = error
        else:
            cause = None
        if state is None or not self._fits(state, seen):
            raise ValueError(
                "the view is of a position whose round was not played from its deal; allowed: "
                "rounds that OpenSpiel can be shown from their first card on"
            ) from cause
        return state

    def _play_again(self, seen: Any, rng: np.random.Generator) -> EscobaState | None:
        rules = self.game.rules
        # Where a hand decides what may be played, not every hand explains what was.
        tries = MOST_TRIES if rules.capture == "hand" or rules.building else 1
        for _ in range(tries):
            try:
                return rebuilt(self.game, seen, rng.random, lambda state: self._next(state, seen))
            except IllegalActionError:
                continue
        return None

    def _next(self, state: EscobaState, seen: Any) -> int | None:
        """The next action of the round that a view has seen; ``None`` at its end."""
        record = state.record
        turn = int(record["turn_index"])
        now = turn == seen["turn_index"]
        if now:
            card, taken, onto = int(seen["played"]), int(seen["picked"]), 0
            reached = all(record[name] == seen[name] for name in ("played", "picked", "placing"))
            if card == NOBODY or reached:
                return None
        else:
            move = logged_move(seen, turn)
            if move is None:
                raise KeyError(turn)
            card, taken, onto = move.card, move.taken, move.onto
        if record["played"] == NOBODY:
            return card
        goal = onto if record["placing"] else taken
        picks = list(cards_in(int(record["legal"]) & goal & ~int(record["picked"])))
        if not picks:
            return LAY
        if len(picks) > 1 and self._policy is not None and self._is_own(record, seen):
            chances = self._policy.action_probabilities(state)
            return max(picks, key=lambda pick: chances.get(pick, 0.0))
        return picks[0]

    def _shift(self, seen: Any) -> int:
        """How far seats are turned."""
        random_dealer = self.game.table.random_dealer
        return 0 if random_dealer else int(seen["dealer"]) + 1

    def _is_own(self, record: Any, seen: Any) -> bool:
        seat = (int(record["turn"]) + self._shift(seen)) % self.game.rules.players
        return bool(seat == seen["viewer"])

    def _fits(self, state: EscobaState, seen: Any) -> bool:
        players = self.game.rules.players
        record, viewer = state.record, int(seen["viewer"])
        turned = [(seat - self._shift(seen)) % players for seat in range(players)]
        same = all(
            record[name] == seen[name]
            for name in ("table", "set_aside", "turn_index", "played", "picked", "placing")
        )
        by_seat = all(
            (record[name][turned] == seen[name][:players]).all()
            for name in ("piles", "escobas", "hand_counts")
        )
        own = record["hands"][turned[viewer]] == seen["hands"][viewer]
        return bool(same and by_seat and own and record["turn"] == turned[int(seen["turn"])])
