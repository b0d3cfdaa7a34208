"""Random streams: Philox4x32-10, a counter-based generator, keyed by the seed.

A block of four 32-bit numbers is a pure function of (seed, game index, round index, purpose, block
number), so a game's cards never depend on how many games run beside it, on threads, or on anything
drawn elsewhere, and there is no generator state to keep. Source: Salmon, Moraes, Dror and Shaw,
*Parallel random numbers: as easy as 1, 2, 3* (SC 2011).
"""

from __future__ import annotations

from escoba_env.engine.jit import entry, kernel

SHUFFLE, DEALER, DECISION, LEARNER_SEAT, KEY_SEED = range(5)
"""Purposes: which of a game's streams a number belongs to."""

GUESSABLE = 1 << 32
"""Seeds below this are so few that all of them can be tried."""

_WORD = 0xFFFFFFFF


@entry
def philox(c0, c1, c2, c3, k0, k1):
    """Returns four random 32-bit words for a counter of four and a key of two 32-bit words."""
    # 64-bit products may wrap to negative numbers; masking gives the right words all the same.
    for _ in range(10):
        p0 = c0 * 0xD2511F53
        p1 = c2 * 0xCD9E8D57
        c0, c1, c2, c3 = (
            ((p1 >> 32) & _WORD) ^ c1 ^ k0,
            p1 & _WORD,
            ((p0 >> 32) & _WORD) ^ c3 ^ k1,
            p0 & _WORD,
        )
        k0 = (k0 + 0x9E3779B9) & _WORD
        k1 = (k1 + 0xBB67AE85) & _WORD
    return c0, c1, c2, c3


@kernel
def block_of(seed, game_index, round_index, purpose, block):
    """Returns block number ``block`` of one of a game's streams, four 32-bit words."""
    seed = int(seed)
    game_index = int(game_index)
    # Purpose in the top bits of the block word: 2^28 blocks a purpose and round.
    return philox(
        (purpose << 28) | block,
        int(round_index) & _WORD,
        game_index & _WORD,
        (game_index >> 32) & _WORD,
        seed & _WORD,
        (seed >> 32) & _WORD,
    )


@entry
def below(word, n):
    """Maps a 32-bit word to 0..n-1, or -1 if the word must be thrown away to stay uniform."""
    # Multiply and shift with rejection: Lemire, Fast random integer generation (2019).
    product = word * n
    if (product & _WORD) < (1 << 32) % n:
        return -1
    return product >> 32


@entry
def random_seat(seed, game_index, players, purpose):
    """Draws a seat of a game: its first dealer, or the one that learns."""
    players = int(players)
    block = 0
    while True:
        for word in block_of(seed, game_index, 0, purpose, block):
            seat = below(word, players)
            if seat >= 0:
                return seat
        block += 1


@kernel
def shuffle(order, size, seed, game_index, round_index, block):
    """Shuffles ``order[:size]`` in place, uniformly, from block ``block`` of the round's stream.

    Returns:
        The next block that has not been used.
    """
    last = int(size) - 1
    while last > 0:
        for word in block_of(seed, game_index, round_index, SHUFFLE, block):
            if last > 0:
                other = below(word, last + 1)
                if other >= 0:
                    kept = order[last]
                    order[last] = order[other]
                    order[other] = kept
                    last -= 1
        block += 1
    return block


@kernel
def hashed(number):
    """A 32-bit word that follows from a number of 32 bits: a quick stream, drawn by counting up.

    Source: Wellons, *Prospecting for hash functions* (2018), ``lowbias32``.
    """
    word = number & _WORD
    word ^= word >> 16
    word = (word * 0x7FEB352D) & _WORD
    word ^= word >> 15
    word = (word * 0x846CA68B) & _WORD
    return word ^ (word >> 16)


@entry
def decision_key(seed, game_index, counter):
    """A 63-bit key for one decision of a policy: see ``Views.keys``.

    Policies are given keys, and cards are hidden from them, so the keys of a seed that nobody can
    guess are drawn with a seed of their own, which follows from it and not the other way round.
    Whoever can try all seeds finds the cards from any key: below ``GUESSABLE`` keys are drawn with
    the game's seed, as ever, so that ladders and results of such seeds stay what they are.
    """
    if seed >= GUESSABLE:
        w0, w1, _, _ = block_of(seed, 0, 0, KEY_SEED, 0)
        seed = (w0 << 31) ^ w1
    w0, w1, _, _ = block_of(seed, game_index, counter, DECISION, 0)
    return (w0 << 31) ^ w1


@entry
def uniform_of(key, draw):
    """Draw number ``draw`` that follows from a decision's key: a float in [0, 1)."""
    w0, w1, _, _ = block_of(key, draw, 0, DECISION, 1)
    return ((w0 >> 6) * 134217728.0 + (w1 >> 5)) / 9007199254740992.0
