"""Pictures of a game: ``ansi`` as text, ``picture`` as pixels (needs the extra ``render``)."""
