"""``python_escoba``: Escoba as a registered OpenSpiel game, on this package's kernels.

    import pyspiel
    from escoba_env.adapters import openspiel

    game = pyspiel.load_game("python_escoba(players=2,rules=classic)")
    game = pyspiel.load_game(openspiel.game_string("argentine", players=4, partnership=True))

A game is a round. Returns are margins, own side's points less the mean of the other sides', so all
seats' returns sum to zero; the seats of a partnership return the same.

Chance deals card by card: the first table, then each seat's hand from the eldest on, and later
hands when all are empty. The cards of one hand (and the first table) come in ascending order, with
the probabilities that make every set of cards equally likely: an order that nobody could see would
only multiply the histories. Nobody observes a deal before it is complete. ``dealer=last`` (default)
has the last seat deal, so that player 0 begins; ``dealer=random`` draws the dealer by chance first.
With the rule ``initial_table=redeal`` the deals that would be taken back have probability zero.

Information states have perfect recall, the order of picks within a turn included, which a view
(``Game.view``) forgets; tensors are those of the encoding ``history`` with that order beside it.

OpenSpiel's algorithms run on it as on its own Python games: ``cfr``, ``exploitability``, the
IS-MCTS bot ``open_spiel.python.algorithms.ismcts``. ``pyspiel.ISMCTSBot`` is the exception, which
cannot ask any Python game for other states of an information state. ``EscobaPolicy`` is a policy of
this package there, ``OpenSpielPolicy`` an OpenSpiel bot or policy here.

``rules=`` takes a preset, or one of ``SMALL_PACKS``, where exploitability is computed exactly; see
``rules_text`` for other rules, and ``docs/examples/openspiel_cfr.py``.
"""

from __future__ import annotations

from escoba_env.adapters.openspiel.game import EscobaGame, EscobaState
from escoba_env.adapters.openspiel.observer import EscobaObserver
from escoba_env.adapters.openspiel.parameters import (
    SMALL_PACKS,
    game_string,
    parse_rules,
    rules_text,
)
from escoba_env.adapters.openspiel.policies import EscobaPolicy, OpenSpielPolicy

__all__ = [
    "SMALL_PACKS",
    "EscobaGame",
    "EscobaObserver",
    "EscobaPolicy",
    "EscobaState",
    "OpenSpielPolicy",
    "game_string",
    "parse_rules",
    "rules_text",
]
