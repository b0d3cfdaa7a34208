"""In a checkout ``escoba_env.training`` is the folder ``training`` beside this package.

An installed wheel has that folder itself in this place, and not this file.
"""

from pathlib import Path

# A module with a path is a package to Python: its submodules are looked for there.
__path__ = [str(Path(__file__).resolve().parents[1] / "training")]
