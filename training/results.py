"""Writes the table of shipped policies in ``docs/policies.md``, from their cards.

``python -m training.results`` after a policy has been shipped; a test compares the file.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from escoba_env.files import write_whole
from escoba_env.policies.checkpoint import Card, load_checkpoint

from .commands import app_of, one_line

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "policies.md"
BEGIN, END = "<!-- results -->\n", "<!-- end of results -->\n"


def cards() -> list[Card]:
    """Returns the cards of the shipped policies, by name."""
    return [
        load_checkpoint(path.parent)[0] for path in sorted(ROOT.glob("checkpoints/*/card.json"))
    ]


def table() -> str:
    """Returns the table as Markdown."""
    lines = [
        "| policy | over `counting` | over `greedy` | others | trained | search | labels | hours |",
        "| --- | ---: | ---: | --- | ---: | ---: | ---: | ---: |",
    ]
    for card in cards():
        strength = card.strength
        over = {name: "; ".join(_margins(strength, name)) for name in ("counting", "greedy")}
        others = []
        if "counting, beside counting" in strength:
            others.append(f"beside `counting` {_text(strength['counting, beside counting'])}")
        start = card.training["config"].get("start")
        if start:
            others.append(f"over `{start}` {'; '.join(_margins(strength, start))}")
        if "ladder v1" in strength:
            score = strength["ladder v1"]
            others.append(f"ladder v1 {score['score']:+.3f} ± {score['half_width']:.3f}")
        response = strength["best response"]
        search = response.get("search")
        seconds = card.training["seconds"] + card.training.get("label_seconds", 0)
        learned = card.training.get("labels", card.training.get("decisions"))
        lines.append(
            f"| `{card.name}` | {over['counting']} | {over['greedy']} | {'; '.join(others)} | "
            f"{'; '.join(_results(response, 'gain'))} | "
            f"{'; '.join(_results(search, 'gain')) if search else ''} | "
            f"{learned:,} | {seconds / 3600:.1f} |"
        )
    return "\n".join(lines) + "\n"


def _margins(strength: dict[str, Any], opponent: str) -> Iterator[str]:
    found = {key: value for key, value in strength.items() if key.split(" at ")[0] == opponent}
    if len(found) == 1:
        (only,) = found.values()
        yield from _results(only)
    else:
        margins = [value["margin"] for value in found.values()]
        mean = sum(margins) / len(margins)
        yield (
            f"{min(margins):+.2f} to {max(margins):+.2f}, mean {mean:+.2f}, at {len(found)} tables"
        )


def _results(result: dict[str, Any], key: str = "margin") -> Iterator[str]:
    yield _text(result, key)
    if "won" in result:
        yield f"{result['won']:,} matches won, {result['lost']:,} lost"


def _text(result: dict[str, Any], key: str = "margin") -> str:
    return f"{result[key]:+.3f} ± {result['half_width']:.3f}"


def page() -> str:
    """Returns the page with the table as it is now."""
    before, rest = PAGE.read_text(encoding="utf-8").split(BEGIN)
    return f"{before}{BEGIN}{table()}{END}{rest.split(END)[1]}"


def main() -> None:
    """Writes the table of shipped policies in docs/policies.md, from their cards."""
    with one_line("nothing was written"):
        write_whole(PAGE, page())
        print(f"written: {PAGE}")


app = app_of(main)

if __name__ == "__main__":
    app()
