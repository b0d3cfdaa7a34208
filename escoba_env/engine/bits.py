"""Operations on card sets held in signed 64-bit integers.

Compiled, ``popcount`` and ``lowest`` are one machine instruction each; Numba has no Python-level
name for them, so they are declared to the compiler here, with a plain equivalent beside each.
"""

from __future__ import annotations

import numpy as np
from numba import config, types
from numba.extending import intrinsic

from escoba_env.cards import NUM_IDS
from escoba_env.engine.jit import kernel

if config.DISABLE_JIT:  # type: ignore[attr-defined]

    def popcount(bits):
        """Number of cards in a card set."""
        return int(bits).bit_count()

    def lowest(bits):
        """Lowest card id in a card set that is not empty."""
        bits = int(bits)
        return (bits & -bits).bit_length() - 1

else:

    @intrinsic
    def popcount(typingctx, bits):
        """Number of cards in a card set."""

        def codegen(context, builder, signature, args):
            return builder.ctpop(args[0])

        return types.int64(types.int64), codegen

    @intrinsic
    def lowest(typingctx, bits):
        """Lowest card id in a card set that is not empty."""

        def codegen(context, builder, signature, args):
            false = context.get_constant(types.boolean, False)
            return builder.cttz(args[0], false)

        return types.int64(types.int64), codegen


def _rank_mask(rank: int) -> int:
    return sum(1 << (suit * 10 + rank - 1) for suit in range(4))


OROS = (1 << 10) - 1
SEVENS = _rank_mask(7)
RANK_MASKS = np.array([0] + [_rank_mask(rank) for rank in range(1, 11)], np.int64)
"""Cards of each capture value, by value (index 0 is empty)."""
SUIT_MASKS = np.array([OROS << (10 * suit) for suit in range(4)], np.int64)
JOKER_CARDS = 0b11 << 40
VALUES = np.array([card % 10 + 1 for card in range(40)] + [0, 0], np.int64)
"""Capture value of each card id; jokers have none."""
assert len(VALUES) == NUM_IDS


@kernel
def single(card):
    """The card set of one card (or the action set of one action)."""
    # As plain Python a NumPy int8 would be shifted within 8 bits.
    return 1 << int(card)


@kernel
def total(bits):
    """Total capture value of a card set."""
    result = 0
    while bits:
        result += VALUES[lowest(bits)]
        bits &= bits - 1
    return result
