"""The full-information state: what ``state()`` returns, section by section.

The kernel ``escoba_env.engine.encode.encode_states`` fills the sections in, in this order.
"""

from __future__ import annotations

import numpy as np

from escoba_env.cards import NUM_CARDS, NUM_IDS
from escoba_env.encoding import Section
from escoba_env.rules import Rules


def state_sections(rules: Rules, episode: str) -> tuple[Section, ...]:
    """Returns the sections of the full-information state, in the order of their columns.

    Seats are absolute: row or column ``i`` of a section is seat ``i``. A card set is 40 zeros and
    ones by card id (42 with jokers).

    Args:
        rules: The rules of the table.
        episode: ``"round"`` or ``"match"``; a match adds the section ``scores``.
    """
    seats = rules.players
    width = NUM_IDS if rules.jokers else NUM_CARDS
    pack = rules.pack
    oros = max(1, sum(card < 10 for card in range(NUM_CARDS) if pack >> card & 1))
    sevens = max(1, sum(card % 10 == 6 for card in range(NUM_CARDS) if pack >> card & 1))
    rows: list[tuple[str, tuple[int, ...], str, float, float]] = [
        ("hands", (seats, width), "cards in each hand", 1, 1),
        ("captured", (seats, width), "cards captured by each seat", 1, 1),
        ("table", (width,), "face-up cards on the table", 1, 1),
        ("played", (width,), "hand card chosen this turn", 1, 1),
        ("picked", (width,), "table cards picked so far this turn", 1, 1),
        ("set_aside", (width,), "face-up cards out of this round", 1, 1),
        ("stock", (width,), "cards not dealt yet", 1, 1),
        (
            "stock_order",
            (width,),
            "when each card of the stock is dealt: 1 is next (elsewhere: zeros)",
            rules.pack_size,
            rules.pack_size,
        ),
        ("hand_counts", (seats,), "cards in each hand", rules.hand_size, rules.hand_size),
        ("card_counts", (seats,), "cards captured by each seat", rules.pack_size, rules.pack_size),
        ("oro_counts", (seats,), "oros captured by each seat", oros, oros),
        ("seven_counts", (seats,), "sevens captured by each seat", sevens, sevens),
        ("escobas", (seats,), "escobas of each seat", rules.turns + 2, 4),
        ("last_capturer", (seats,), "seat that captured last (none: all zeros)", 1, 1),
        ("dealer", (seats,), "seat that dealt", 1, 1),
        ("to_move", (seats,), "seat to move (over: all zeros)", 1, 1),
        ("deals_left", (1,), "deals of hands still to come this round", rules.deals, rules.deals),
    ]
    if rules.building:
        meaning = "for each card on the table, 1 + the lowest card id in its pile"
        rows.append(("pile_heads", (width,), meaning, width, width))
        rows.append(("placing", (1,), "the chosen card's place is asked for", 1, 1))
    if episode == "match":
        scores = (rules.num_sides,)
        rows.append(("scores", scores, "match score of each side", np.inf, rules.match_target))
    sections: list[Section] = []
    for name, shape, meaning, most, unit in rows:
        start = sections[-1].stop if sections else 0
        sections.append(Section(name, start, shape, meaning, most / unit, 1 / unit))
    return tuple(sections)
