"""The OpenSpiel example solves, plays, measures, and reads what it has written."""

import json
import runpy
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyspiel")

EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "openspiel_cfr.py"


def run(monkeypatch, capsys, *arguments):
    monkeypatch.setattr(sys, "argv", [str(EXAMPLE), "--deals", "100", *map(str, arguments)])
    runpy.run_path(str(EXAMPLE), run_name="__main__")
    return capsys.readouterr().out


def found(text, name):
    return float(text.split(f"{name}: ")[1].split()[0])


def test_the_example_solves_plays_and_measures(monkeypatch, capsys, tmp_path):
    file = tmp_path / "cfr.json"
    out = run(monkeypatch, capsys, "--iterations", 4, "--out", file)
    exploitability = "exploitability of "
    first = float(out.split("iteration     1: exploitability ")[1].split(",")[0])
    solved = found(out, exploitability + "cfr")
    assert 0 < solved < found(out, exploitability + "counting") < first
    assert found(out, "cfr against random") > 0
    again = run(monkeypatch, capsys, "--load", file, "--policy", "counting")
    assert found(again, exploitability + "cfr") == solved
    assert again.count("exploitability of counting") == 2
    table = json.loads(file.read_text(encoding="utf-8"))
    assert len(table["policy"]) == 1560
    with pytest.raises(ValueError, match=r"allowed: python_escoba.*pack8"):
        run(monkeypatch, capsys, "--load", file, "--pack", "pack8")
