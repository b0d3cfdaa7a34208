"""What every test shares."""

from __future__ import annotations

import os

# Whether kernels have to be compiled hangs on what was run before: no test may hang on that.
os.environ.setdefault("ESCOBA_QUIET", "1")
