"""Training scripts, run from the repository with ``python -m training.NAME``."""
