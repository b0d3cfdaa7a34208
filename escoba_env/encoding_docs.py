"""Writes ``docs/encodings.md``: every encoding, section by section, from the encodings themselves.

``python -m escoba_env.encoding_docs > docs/encodings.md`` after a change; a test compares the file.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable

from escoba_env.encoding import MEMORIES, VERSIONS, Encoding, Section
from escoba_env.engine.outlook import FACTS
from escoba_env.rules import Rules, make_rules

_INTRODUCTION = """\
# Encodings

*Written by `python -m escoba_env.encoding_docs > docs/encodings.md`: change the encodings, not
this file.*

What a seat observes: an array of numbers made of named sections. `Encoding(name, rules, episode,
memory, dtype)` is the layout of one such array: its `layout()` gives every section by name, as
below, and `describe(observation)` says an observation in words. `Batch`, and `Views.observe` with
an `Encoding`, write them.

- **Cards.** A card set is zeros and ones by card id: suit x 10 + rank - 1, suits oros, copas,
  espadas, bastos; then the two jokers where the rules have jokers, and always in `universal`.
- **Seats** are relative to the observer: `self`, then to its right `next`, `opposite`, `previous`.
  With two players there are `self` and `next`, with three `self`, `next` and `previous`.
  `universal` has room for all four, and a seat that does not play is zeros: of three players the
  *opposite* one is absent, and of two players the other one is `next`, the one who replies.
- **Memory.** With `perfect` all that has been seen is known. With `visible` a seat sees what lies
  there and remembers nothing: of captured cards, its own too, it sees how many each pile has. The
  sections `captured`, `unseen`, `oro_counts` and `seven_counts` are left out, and `facts` take
  every card out of sight to be possibly in the next hand. What players keep before them stays:
  escobas, the last capturer, the cards set aside.
- **Numbers** are written as `number x scale`, so that they are about 1, and `high` is the largest
  value after that; the lowest is 0, of `facts` unbounded. With `dtype="uint8"` numbers are written
  as they are; it is refused for an encoding with a section that has other numbers than 0 to 255
  (`scores`, `facts`, `rules_points`).
- **Equal observations** mean equal legal actions and an equal public position, with memory
  `visible` but for what it forgets; `history` tells apart any two public histories of a round.
"""

_ABOUT = {
    "compact": "The sections that the rules at hand can use.",
    "tactical": "`compact` and facts that follow from each legal action; rows of other actions, "
    "and of a seat that is not to move, are zeros.",
    "universal": "Every section, the rules among them, in one shape with one meaning for all "
    "rules, numbers of players and episodes. Counts are scaled by those of the usual pack, "
    "whatever the pack; `scores` by the target at hand (below: 21).",
    "universal_tactical": "`universal` and the facts of `tactical`.",
    "planes": "`compact` as an image of shape (planes, 4, 10), suits by ranks. A card set is one "
    "plane; each number fills a plane of its own, and so does each joker: with jokers a card set "
    "is three planes, its 40 cards, J1 and J2. `layout()` counts planes, so "
    "`observation[section.slice]` is the section. Sections of numbers come after those of cards.",
    "history": "`compact` and every turn of the round so far, oldest first. All `turn_` sections "
    "have a turn as their first axis: `rules.turns` of them, those to come being zeros. A turn "
    "that is not finished is in `played` and `picked`. Earlier rounds of a match are in `scores` "
    "alone. It is refused with memory `visible`: the turns say what has been captured.",
}

_OTHER_RULES: tuple[tuple[str, Rules, str], ...] = (
    ("`initial_table=set_aside`", make_rules(initial_table="set_aside"), "round"),
    ("`building`", make_rules("tabletop"), "round"),
    ("`open_hands`", make_rules(open_hands=True), "round"),
    ("`initial_table=dealer` or `eldest`", make_rules(initial_table="dealer"), "round"),
    ("a match", make_rules(), "match"),
)
"""Rules that add sections to those of ``classic``."""


def text() -> str:
    """Returns the whole page."""
    parts = [_INTRODUCTION, _sizes()]
    parts += [_page(name) for name in VERSIONS]
    parts += [_added(), _facts()]
    return "\n".join(parts)


def _sizes() -> str:
    rows = []
    for name in VERSIONS:
        for memory in MEMORIES:
            if (name, memory) != ("history", "visible"):
                shapes = [
                    Encoding(name, make_rules(players=players), "round", memory).shape
                    for players in (2, 3, 4)
                ]
                rows.append([f"`{name}`", str(VERSIONS[name]), memory, *map(_shape, shapes)])
    head = ["encoding", "version", "memory", "2 players", "3 players", "4 players"]
    return "## Shapes\n\nOf `classic`, a round.\n\n" + _table(head, rows)


def _page(name: str) -> str:
    """A table of an encoding for the rules ``classic`` and two players."""
    encoding = Encoding(name, Rules())
    visible = {} if name == "history" else Encoding(name, Rules(), memory="visible").layout()
    unit = "planes" if name == "planes" else "columns"
    rows = []
    for section in encoding.sections:
        seen = visible.get(section.name)
        number = section.stop - section.start
        row = [f"`{section.name}`", _columns(section), str(number), *_about(section)]
        if visible:
            row.append(_columns(seen) if seen else "-")
        rows.append(row)
    total = encoding.sections[-1].stop
    rows.append(["**total**", "", f"**{total}**", *[""] * (len(rows[0]) - 3)])
    head = ["section", unit, "number", "shape", "meaning", "scale", "high"]
    if visible:
        head.append(f"{unit}, `visible`")
    title = f"## `{name}`, version {encoding.version}"
    rules = "" if name.startswith("universal") else " Below: `classic`, two players, a round."
    return f"{title}\n\n{_ABOUT[name]}{rules}\n\n{_table(head, rows)}"


def _added() -> str:
    """A table of the sections that other rules add to ``compact`` and ``history``."""
    standard = Encoding("history", Rules()).layout()
    rows = []
    for rule, rules, episode in _OTHER_RULES:
        compact = Encoding("compact", rules, episode).layout()
        for section in Encoding("history", rules, episode).sections:
            if section.name not in standard:
                where = "all" if section.name in compact else "`history`"
                rows.append([f"`{section.name}`", rule, where, *_about(section)])
    head = ["section", "with", "in", "shape", "meaning", "scale", "high"]
    return (
        "## Sections that other rules add\n\nTo all encodings but `universal`, which has all but "
        "the turns. With jokers a card set is 42 wide.\n\n" + _table(head, rows)
    )


def _facts() -> str:
    """A table of the columns of ``facts``."""
    rows = [[str(i), meaning] for i, meaning in enumerate(FACTS)]
    return (
        "## Facts of an action\n\nThe last axis of `facts`; worth is a rough value in points.\n\n"
        + _table(["index", "meaning"], rows)
    )


def _about(section: Section) -> list[str]:
    meaning = section.meaning.split(":")[0] if section.kind == "facts" else section.meaning
    if section.labels and section.name not in ("scores", "turn_seats"):
        meaning += f" ({', '.join(section.labels)})"
    scale = "1" if section.scale == 1 else f"1/{round(1 / section.scale)}"
    return [_shape(section.shape), meaning, scale, f"{section.high:.4g}"]


def _columns(section: Section) -> str:
    last = section.stop - 1
    return str(last) if last == section.start else f"{section.start}-{last}"


def _shape(shape: tuple[int, ...]) -> str:
    return f"({', '.join(map(str, shape))}{',' if len(shape) == 1 else ''})"


def _table(head: list[str], rows: Iterable[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


if __name__ == "__main__":
    sys.stdout.write(text())
