"""The rules of Escoba, once: compiled kernels over one flat game record.

``record`` holds the game record and the lowered rules, ``bits`` the operations on card sets,
``rng`` the random streams, ``play`` deals, legality, turns and the end of a round, ``score`` the
scoring, ``outlook`` what follows from a pick, ``encode`` observations, ``batch`` the loops over
many games, ``solve`` the exact solver, ``counting`` the card counter, ``search`` and ``ismcts`` the
searches, ``jit`` how they are compiled and kept. All are Numba functions; with
``NUMBA_DISABLE_JIT=1`` the same code runs as plain Python.
"""
