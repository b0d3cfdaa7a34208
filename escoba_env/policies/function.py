"""``FunctionPolicy``: plays by a plain function of observation and mask."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from escoba_env.batch import Views
from escoba_env.cards import NUM_ACTIONS
from escoba_env.checks import flag, quoted, whole, wholes
from escoba_env.encoding import Encoding
from escoba_env.rules import make_rules


class FunctionPolicy:
    """Plays by a function ``(observation, mask) -> action``.

    The function is asked where more than one action may be legal. It is a policy like any other:
    what it answers should follow from its arguments alone, or its games cannot be repeated.

    Args:
        function: Takes an observation, array of ``encoding``'s shape, and the legal actions, int8
            (43,), which are its own to keep and change; returns a legal action, any integer type.
        encoding: Name of the encoding, as for ``escoba_v0.env``.
        memory: As for ``escoba_v0.env``.
        batched: Whether the function takes many decisions at once: arrays (n, ...) and int8
            (n, 43) to int (n,). It is then far faster.
        name: Its name; default: the function's.

    Raises:
        ValueError: If an argument is not possible.
    """

    def __init__(
        self,
        function: Callable[[NDArray[Any], NDArray[np.int8]], Any],
        encoding: str = "compact",
        memory: str = "perfect",
        *,
        batched: bool = False,
        name: str | None = None,
    ) -> None:
        self.name = name or getattr(function, "__name__", None) or type(function).__name__
        if inspect.isclass(function) or not callable(function):
            raise ValueError(
                f"policy {quoted(function)} is not possible; allowed: a function "
                f"(observation, mask) -> action"
            )
        try:
            inspect.signature(function).bind(None, None)
        except TypeError as error:
            raise ValueError(
                f"policy {self.name!r} cannot be called with an observation and a mask: {error}"
            ) from None
        except ValueError:
            # Some built-in functions tell nobody what they take.
            pass
        self.function = function
        self.batched = flag("batched", batched)
        self._encodings: dict[Any, Encoding] = {}
        self._encoding = (encoding, memory)
        # Says now what is wrong with the names.
        Encoding(encoding, make_rules("classic"), "round", memory)

    def __repr__(self) -> str:
        name, batched = self._encoding[0], ", batched=True" * self.batched
        return f"<FunctionPolicy {quoted(self.name)}: encoding {name!r}{batched}>"

    def act(self, views: Views) -> NDArray[np.int64]:
        """Chooses an action for each view; see ``Policy.act``.

        Raises:
            ValueError: If the function raises, or answers with something else than an action.
        """
        table = (views.rules, views.episode)
        if table not in self._encodings:
            name, memory = self._encoding
            self._encodings[table] = Encoding(name, views.rules, views.episode, memory)
        observations, masks = views.observe(self._encodings[table])
        called = f"action of policy {self.name!r}"
        last = NUM_ACTIONS - 1
        if self.batched:
            answer = self._ask(observations, masks.copy())
            return wholes(called, answer, (len(views),), 0, last)
        actions = np.empty(len(views), np.int64)
        for i in range(len(views)):
            answer = self._ask(observations[i].copy(), masks[i].copy())
            # Many frameworks answer with an array of one number.
            if isinstance(answer, np.ndarray) and answer.size == 1:
                answer = answer.reshape(-1)[0]
            actions[i] = whole(called, answer, 0, last)
        return actions

    def _ask(self, observation: NDArray[Any], mask: NDArray[np.int8]) -> Any:
        try:
            return self.function(observation, mask)
        except Exception as error:  # somebody else's code
            raise ValueError(
                f"policy {self.name!r} raised {type(error).__name__}: {error}"
            ) from error
