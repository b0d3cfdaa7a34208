"""Speed of this package and of its peers, measured in one run: ``python tests/benchmarks/run.py``.

``runner`` times cases, ``ours`` and ``peers`` are the cases, ``bars`` says what has to be how many
times as fast as what, ``report`` makes tables; ``run`` is the command.
"""
