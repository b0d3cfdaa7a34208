"""The preset rules as plain mappings: the columns of section 2 of the rules page, and section 7.

Written from the rules page alone, so that a wrong preset of the engine shows up as a difference.
"""

from __future__ import annotations

from typing import Any

Rules = dict[str, Any]

CLASSIC: Rules = {
    "players": 2,
    "partnership": False,
    "capture": "card",
    "building": False,
    "initial_table": "play",
    "initial_thirty": "groups",
    "ties": "none",
    "most_cards": 1,
    "most_oros": 1,
    "all_oros": 1,
    "most_sevens": 1,
    "all_sevens": 1,
    "seven_of_oros": 1,
    "setenta": 0,
    "escoba": 1,
    "target": 21,
    "partnership_target": None,
    "jokers": 0,
    "open_hands": False,
    "capture_by": "fifteen",
    "napola": False,
    "ranks": (1, 2, 3, 4, 5, 6, 7, 8, 9, 10),
    "suits": ("oros", "copas", "espadas", "bastos"),
    "hand_size": 3,
    "table_size": 4,
    "target_sum": 15,
}

TABLETOP: Rules = {
    **CLASSIC,
    "building": True,
    "all_sevens": 2,
    "target": 15,
    "partnership_target": 30,
}

LUDOTEKA: Rules = {
    **CLASSIC,
    "capture": "optional",
    "initial_table": "dealer",
    "initial_thirty": "groups",
    "ties": "all",
}

ARGENTINE: Rules = {
    **CLASSIC,
    "initial_table": "set_aside",
    "most_sevens": 0,
    "all_sevens": 0,
    "setenta": 1,
}

PRESETS: dict[str, Rules] = {
    "tabletop": TABLETOP,
    "ludoteka": LUDOTEKA,
    "argentine": ARGENTINE,
    "classic": CLASSIC,
    "comodines": {**ARGENTINE, "jokers": 2},
    "escova": {**ARGENTINE, "target": 31},
    "open_table": {**ARGENTINE, "open_hands": True},
    # A tie and the ten oros are not spoken of in section 7: nobody scores, and nothing extra.
    "scopa": {
        **CLASSIC,
        "most_sevens": 0,
        "all_sevens": 0,
        "setenta": 1,
        "target": 11,
        "capture_by": "value",
        "napola": True,
    },
}


def rules_for(preset: str = "classic", **fields: object) -> Rules:
    """Returns the rules of a preset with some fields replaced.

    Args:
        preset: A key of `PRESETS`.
        **fields: Fields of the rules to replace, by name.

    Returns:
        A new mapping with every field.

    Raises:
        ValueError: If a field is not one of the rules.
    """
    unknown = set(fields) - set(CLASSIC)
    if unknown:
        raise ValueError(f"unknown rule fields: {sorted(unknown)}")
    return {**PRESETS[preset], **fields}
