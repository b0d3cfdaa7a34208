"""How likely chance is to deal each card, where the cards of a hand come in ascending order."""

from __future__ import annotations

import functools
import math

from escoba_env.cards import NUM_CARDS
from escoba_env.engine.bits import VALUES


@functools.cache
def lowest_of(cards: int, number: int) -> tuple[float, ...]:
    """Probabilities that each of ``cards`` cards is the lowest of ``number`` drawn from them."""
    ways = math.comb(cards, number)
    return tuple(math.comb(cards - 1 - i, number - 1) / ways for i in range(cards - number + 1))


@functools.cache
def _sums(cards: int, number: int, total: int) -> int:
    """In how many ways ``number`` of a card set make a total; jokers are in none of them."""
    if number == 0 or cards == 0 or total < 0:
        return int(number == 0 and total == 0)
    card = cards.bit_length() - 1
    rest = cards ^ 1 << card
    with_it = 0 if card >= NUM_CARDS else _sums(rest, number - 1, total - int(VALUES[card]))
    return _sums(rest, number, total) + with_it


def tables_kept(
    cards: tuple[int, ...], number: int, laid: tuple[int, ...], target: int
) -> list[float]:
    """``lowest_of`` for first tables, of which those that make the target are dealt again.

    Args:
        cards: What can be laid yet, ascending.
        number: How many are to be laid.
        laid: What has been laid.
        target: The total that no first table has in the end, unless a joker is in it.
    """
    ways = []
    for i in range(len(cards) - number + 1):
        later = cards[i + 1 :]
        kept = math.comb(len(later), number - 1)
        table = (*laid, cards[i])
        if max(table) < NUM_CARDS:
            need = target - sum(int(VALUES[card]) for card in table)
            kept -= _sums(sum(1 << card for card in later), number - 1, need)
        ways.append(kept)
    return [way / sum(ways) for way in ways]
