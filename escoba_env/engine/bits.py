"""Operations on card sets held in signed 64-bit integers, and stores of many columns at once.

Compiled, ``popcount``, ``lowest`` and ``uppermost`` are one machine instruction each, and
``write_forty`` is a few; Numba has no Python-level name for them, so they are declared to the
compiler here, with a plain equivalent beside each.
"""

from __future__ import annotations

import sys

import numpy as np
from llvmlite import ir
from numba import config, types
from numba.extending import intrinsic

from escoba_env.cards import NUM_CARDS, NUM_IDS
from escoba_env.engine.jit import entry, kernel

_INT64 = ir.IntType(64)
_BYTE = ir.IntType(8)

if config.DISABLE_JIT:  # type: ignore[attr-defined]

    def popcount(bits):
        """Number of cards in a card set."""
        return int(bits).bit_count()

    def lowest(bits):
        """Lowest card id in a card set that is not empty."""
        bits = int(bits)
        return (bits & -bits).bit_length() - 1

    def uppermost(bits):
        """Position of the highest bit in a positive number."""
        return int(bits).bit_length() - 1

    def write_forty(out, row, start, bits):
        """Writes the 40 lowest bits as zeros and ones into ``out[row, start:]``."""
        for i in range(NUM_CARDS):
            out[row, start + i] = (int(bits) >> i) & 1

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

    @intrinsic
    def uppermost(typingctx, bits):
        """Position of the highest bit in a positive number."""

        def codegen(context, builder, signature, args):
            false = context.get_constant(types.boolean, False)
            leading = builder.ctlz(args[0], false)
            return builder.sub(context.get_constant(types.int64, 63), leading)

        return types.int64(types.int64), codegen

    @intrinsic
    def write_forty(typingctx, out, row, start, bits):
        """Writes the 40 lowest bits as zeros and ones into ``out[row, start:]``.

        The loop that this is would be compiled into one store a column.
        """

        def codegen(context, builder, signature, args):
            array_type = signature.args[0]
            array = context.make_array(array_type)(context, builder, args[0])
            item = context.get_data_type(array_type.dtype)
            size = context.get_abi_sizeof(item)
            steps = [builder.extract_value(array.strides, axis) for axis in range(2)]
            if array_type.layout == "C":
                steps[1] = ir.Constant(_INT64, size)
            at = builder.add(builder.mul(args[1], steps[0]), builder.mul(args[2], steps[1]))
            first = builder.gep(builder.bitcast(array.data, _BYTE.as_pointer()), [at])
            # A vector's first element is its lowest bit on little-endian machines only.
            in_vectors = array_type.layout == "C" and sys.byteorder == "little"
            done = 0
            while done < NUM_CARDS:
                number = min(32, NUM_CARDS - done) if in_vectors else 1
                part = builder.lshr(args[3], ir.Constant(_INT64, done))
                part = builder.trunc(part, ir.IntType(number))
                kind = item
                if number > 1:
                    part = builder.bitcast(part, ir.VectorType(ir.IntType(1), number))
                    kind = ir.VectorType(item, number)
                is_float = isinstance(array_type.dtype, types.Float)
                value = builder.uitofp(part, kind) if is_float else builder.zext(part, kind)
                place = builder.gep(first, [builder.mul(steps[1], ir.Constant(_INT64, done))])
                store = builder.store(value, builder.bitcast(place, kind.as_pointer()))
                store.align = size
                done += number
            return context.get_dummy_value()

        return types.none(out, types.int64, types.int64, types.int64), codegen


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
def fill(out, row, start, size, value):
    """Writes the same number into some columns."""
    # As a slice, which is compiled to one fill; a loop is compiled to a store a column.
    out[row, start : start + size] = value


@kernel
def single(card):
    """The card set of one card (or the action set of one action)."""
    # As plain Python a NumPy int8 would be shifted within 8 bits.
    return 1 << int(card)


@entry
def total(bits):
    """Total capture value of a card set."""
    result = 0
    while bits:
        result += VALUES[lowest(bits)]
        bits &= bits - 1
    return result
