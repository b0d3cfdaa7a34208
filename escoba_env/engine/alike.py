"""``number_kinds``: which whole moves come to the same, as the searches take them."""

from __future__ import annotations

from escoba_env.cards import NUM_IDS
from escoba_env.engine.bits import single
from escoba_env.engine.counting import list_turns, make_desk
from escoba_env.engine.jit import entry
from escoba_env.engine.rng import hashed
from escoba_env.engine.solve import kind_of_item, kinds_of


@entry
def number_kinds(spec, states, moves, kinds):
    """Writes numbers for moves of a single game: equal rows come to the same.

    Args:
        moves: int64 (n, 3): the card, the card set that it takes, and that of its pile, or 0.
        kinds: int64 (n, 3).
    """
    desk = make_desk()
    list_turns(spec[0], states[0], desk, spec[0]["setenta"] == 0)
    for i in range(len(moves)):
        # A record does not keep its array alive: it is taken from it anew in every turn of the
        # loop.
        plan, node = desk[0][0], desk[1][0]
        card, taken, onto = moves[i, 0], moves[i, 1], moves[i, 2]
        kinds[i, 0] = card
        kinds[i, 1] = taken
        kinds[i, 2] = onto
        if plan["alike"] == 0:
            continue
        kinds[i, 0] = kinds_of(single(card))
        if spec[0]["building"] == 0:
            kinds[i, 1] = kinds_of(taken)
        elif spec[0]["napola"] == 0:
            # Piles count as wholes; the order in which they are taken does not.
            kinds[i, 1] = 0
            for head in range(NUM_IDS):
                if (node["heads"] >> head) & 1:
                    kind = hashed(kind_of_item(spec[0], plan, node, single(head)))
                    if (taken >> head) & 1:
                        kinds[i, 1] += kind
                    if (onto >> head) & 1:
                        kinds[i, 2] = kind
