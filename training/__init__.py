"""Training: scripts, run with ``python -m training.NAME`` from a checkout.

An installed package has them as ``escoba_env.training``, so that no module of so common a name as
``training`` is in a user's environment; ``escoba train`` and ``escoba distil`` are two of them.
"""

import signal
import sys

from .stopping import end_while_importing

# What Python calls a module that it is about to run: what follows are the imports of a script.
if sys.argv[:1] == ["-m"] and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, end_while_importing)
