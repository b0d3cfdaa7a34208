"""``ask``: what a policy chooses, once it has been seen to be legal."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from escoba_env.batch import IllegalActionError, Views, explain_illegal
from escoba_env.checks import quoted, wholes
from escoba_env.engine.batch import first_illegal
from escoba_env.policies.base import Policy


def ask(policy: Policy, views: Views) -> NDArray[np.int64]:
    """Asks a policy for an action in each view.

    Raises:
        IllegalActionError: If one of them is illegal; the message names the policy.
        ValueError: If the policy answers with something else than one whole number a view.
    """
    answer = policy.act(views)
    try:
        actions = wholes("actions", answer, (len(views),))
    except ValueError as error:
        raise ValueError(f"policy {quoted(policy.name)}: {error}") from None
    bad = first_illegal(views.records, np.arange(len(views)), actions)
    if bad >= 0:
        reason = explain_illegal(views.records[bad], int(actions[bad]))
        raise IllegalActionError(f"policy {quoted(policy.name)}: {reason}")
    return actions
