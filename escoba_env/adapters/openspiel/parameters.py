"""Parameters of ``python_escoba``: rules as text, and packs small enough to be solved."""

from __future__ import annotations

from typing import Any

from escoba_env.checks import one_of, quoted
from escoba_env.rules import PRESETS, Rules, RulesError, make_rules

SMALL_PACKS: dict[str, dict[str, Any]] = {
    "pack8": {
        "ranks": (1, 2, 3, 4),
        "suits": ("oros", "copas"),
        "hand_size": 2,
        "table_size": 2,
        "target_sum": 5,
    },
    "pack6": {
        "ranks": (1, 2, 3),
        "suits": ("oros", "copas"),
        "hand_size": 2,
        "table_size": 1,
        "target_sum": 4,
    },
}
"""Rules for two players whose whole game tree can be walked, by a name that ``rules=`` takes.

``pack6``: six cards, two in each hand, one on the table and one that is never dealt: 3,391 nodes,
1,560 information states, 360 of them with a choice.
``pack8``: eight cards, two of them never dealt: 58,392 nodes, 23,700 information states.
"""

DEALERS = ("last", "random")
_LISTS = ("ranks", "suits")


def rules_text(rules: Rules) -> str:
    """Writes rules, but for players and partnership, as the parameter ``rules`` has them.

    It is ``NAME;field:value;field:value``: a preset's name or one of ``SMALL_PACKS``, and the
    fields that differ from it; the members of a list stand apart by spaces.
    """
    parts = ["classic"]
    for name, value in rules.changes().items():
        if name not in ("players", "partnership"):
            text = " ".join(map(str, value)) if name in _LISTS else str(value).lower()
            parts.append(f"{name}:{text}")
    return ";".join(parts)


def parse_rules(text: str, players: int = 2, partnership: bool = False) -> Rules:
    """Reads rules as :func:`rules_text` writes them.

    Raises:
        RulesError: If the name or a field is unknown, a part is not ``field:value``, or the result
            cannot be played.
    """
    given: object = text
    if not isinstance(given, str):
        raise RulesError(f"rules {quoted(given)} are no text; allowed: that of rules_text")
    name, *parts = text.split(";")
    if name not in PRESETS and name not in SMALL_PACKS:
        allowed = ", ".join([*PRESETS, *SMALL_PACKS])
        raise RulesError(f"rules {quoted(name)} are unknown; allowed: {allowed}")
    names = [part.partition(":")[0] for part in parts]
    twice = [field for field in names if names.count(field) > 1]
    if twice:
        raise RulesError(
            f"field {quoted(twice[0])} stands twice in rules {quoted(text)}; allowed: once"
        )
    fields: dict[str, Any] = dict(PRESETS.get(name, SMALL_PACKS.get(name, {})))
    for part in parts:
        field, colon, value = part.partition(":")
        if not colon or field in ("players", "partnership"):
            raise RulesError(
                f"part {quoted(part)} of rules {quoted(text)} is not possible; allowed: "
                f"field:value; players and partnership are parameters of their own"
            )
        fields[field] = tuple(map(_value, value.split())) if field in _LISTS else _value(value)
    return make_rules(fields, players=players, partnership=partnership)


def _value(text: str) -> Any:
    words = {"true": True, "false": False, "none": "none"}
    if text in words:
        return words[text]
    # Python refuses to read numbers of thousands of digits.
    return int(text) if text.isdecimal() and len(text) < 20 else text


def game_string(rules: Any = "classic", *, dealer: str = "last", **fields: Any) -> str:
    """Writes the string that ``pyspiel.load_game`` takes.

    Args:
        rules: A preset's name, one of ``SMALL_PACKS``, a ``Rules`` or a mapping of fields.
        dealer: ``"last"`` or ``"random"``.
        **fields: Fields of ``Rules`` that replace those of ``rules``.

    Raises:
        ValueError: If the rules or the dealer are not possible.
    """
    if isinstance(rules, str) and rules in SMALL_PACKS:
        rules = SMALL_PACKS[rules]
    made = make_rules(rules, **fields)
    one_of("dealer", dealer, DEALERS)
    return (
        f"python_escoba(dealer={dealer},partnership={made.partnership},players={made.players},"
        f"rules={rules_text(made)})"
    )
