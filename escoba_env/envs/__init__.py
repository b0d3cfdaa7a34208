"""Environments: ``aec`` and ``parallel`` (PettingZoo) and ``single`` (Gymnasium).

All three are shells around ``table.Table``, which plays the game through ``escoba_env.game``. None
of them knows a rule.
"""
