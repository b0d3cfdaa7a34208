"""Settings of Hypothesis: the suite draws the same examples in every run; others are asked for.

``python -m pytest --hypothesis-profile=random`` draws new ones, and keeps those that fail to try
them again.
"""

from hypothesis import settings

settings.register_profile("suite", derandomize=True)
settings.register_profile("random", derandomize=False, print_blob=True)
settings.load_profile("suite")
