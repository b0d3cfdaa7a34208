"""Environments. None of them knows a rule.

One game: ``aec`` and ``parallel`` (PettingZoo) and ``single`` (Gymnasium), shells around
``table.Table``, which plays the game through ``escoba_env.game``.

Many games: ``vector`` (Gymnasium) and ``sb3`` (Stable-Baselines3), with one learner in each, shells
around ``tables.Tables``; ``all_seats``, in which a learner plays every seat. They share
``escoba_env.batch``. ``opponents`` has policies play the seats that are not a learner's.
"""
