"""Texts and states of games with something changed: each is refused, or is a game all through.

A change that is accepted must say the same wherever it says a thing. That is asked in three ways:
its own text reads back as it is, the reference model comes to the same place by its deal and its
log, and it can be played to the end of the round.
"""

from __future__ import annotations

import random

import numpy as np

from escoba_env import Game
from escoba_env.cards import CARD_NAMES
from escoba_env.engine.record import HIDDEN, NOBODY, STATE
from escoba_env.position import MAX_SCORE, format_position, logged_move, parse_position
from reference.compare import (
    check_same_round_end,
    check_same_turn,
    deck_of,
    reference_move,
    twelfths,
)
from reference.model import ReferenceGame
from reference.presets import CLASSIC

# No exponents: ten to the power of a billion is another test's.
CHARACTERS = "0123456789ocebSCRJ-?/,;:=+> ."


# Changes


def with_other_characters(text: str, rng: random.Random) -> str:
    """Returns a text of which up to three characters in a row are replaced by up to three."""
    start = rng.randrange(len(text))
    stop = min(len(text), start + rng.randint(0, 3))
    other = "".join(rng.choices(CHARACTERS, k=rng.randint(0, 3)))
    return text[:start] + other + text[stop:]


def with_another_part(text: str, rng: random.Random) -> str:
    """Returns a text of which one part has an entry moved, left out, given twice or replaced.

    Such a text looks more like a game than one with other characters.
    """
    words = text.split(" ")
    at = rng.randrange(1, len(words))
    key, _, value = words[at].partition("=")
    separator = rng.choice([mark for mark in ",;/+:>" if mark in value] or [","])
    entries = value.split(separator)
    one, two = rng.randrange(len(entries)), rng.randrange(len(entries))
    kind = rng.randrange(5)
    if kind == 0:
        entries[one], entries[two] = entries[two], entries[one]
    elif kind == 1:
        entries.pop(one)
    elif kind == 2:
        entries.insert(one, entries[two])
    elif kind == 3:
        entries[one] = rng.choice(CARD_NAMES)
    else:
        # A card of one part in the place of one of another: both say of it that it is there.
        other = rng.choice([word.partition("=")[2] for word in words[1:]])
        entries[one] = rng.choice(other.split(rng.choice(",;/")))
    words[at] = f"{key}={separator.join(entries) or '-'}"
    return " ".join(words)


def with_cards_exchanged(text: str, rng: random.Random) -> str:
    """Returns a text in which two cards have changed names in one part, or in all but one."""
    words = text.split(" ")
    one, two = rng.sample(CARD_NAMES[:40], 2)
    at = rng.randrange(1, len(words))
    inside = rng.random() < 0.5
    for i in range(1, len(words)):
        if (i == at) == inside:
            words[i] = words[i].replace(one, "*").replace(two, one).replace("*", two)
    return " ".join(words)


TEXT_CHANGES = (with_other_characters, with_another_part, with_cards_exchanged)


def with_another_number(state: bytes, rng: random.Random) -> bytes:
    """Returns a state of which one number is another, or of which two of a field are exchanged."""
    record = np.frombuffer(state, STATE).copy()
    name = rng.choice(STATE.names or ())
    values = record[name].reshape(-1)
    one, two = rng.randrange(len(values)), rng.randrange(len(values))
    info = np.iinfo(values.dtype)
    kind = rng.randrange(4)
    if kind == 0:
        values[[one, two]] = values[[two, one]]
    elif kind == 1:
        values[one] = rng.randint(-3, 45)
    elif kind == 2:
        values[one] ^= values.dtype.type(1 << rng.randrange(8 * info.dtype.itemsize - 1))
    else:
        values[one] = rng.choice([info.min, info.max, 12, 100])
    return record.tobytes()


# What is accepted


def check_accepted(game: Game, rng: random.Random) -> None:
    """Checks that a game that was read agrees with itself.

    Raises:
        AssertionError: If it does not.
    """
    check_reads_back(game, rng.randrange(game.rules.players))
    check_with_the_reference(game)
    started = game.record["round_index"]
    while not game.is_over and game.record["round_index"] == started:
        assert game.legal_actions()
        game.step(rng.choice(game.legal_actions()))
    if not (game.record["scores"] > MAX_SCORE).any():
        # A score that was the highest possible may have passed it.
        check_reads_back(game, 0)


def check_reads_back(game: Game, seat: int) -> None:
    """Checks that the texts of a game and of a seat's view of it read back as what they were."""
    assert Game.from_text(game.to_text()).get_state() == game.get_state()
    view = game.view(seat).records
    text = format_position(game.rules, game.episode, view[0])
    assert parse_position(text)[2].tobytes() == view.tobytes()


def check_with_the_reference(game: Game) -> None:
    """Checks that the model, given the deal and the log, comes to where the game is."""
    record = game.record
    if HIDDEN in record["stock"][: game.rules.pack_size] or record["played"] != NOBODY:
        # It was set up, or is within a turn: the model knows whole rounds and turns.
        return
    fields = {**CLASSIC, **game.rules.as_dict()}
    reference = ReferenceGame(fields, game.dealer, [deck_of(game)] * 2)
    for turn in range(int(record["turn_index"])):
        move = logged_move(record, turn)
        assert move is not None
        reference.play(reference_move(move))
    if not game.is_over:
        check_same_turn(game, reference)
        return
    check_same_round_end(game, reference)
    points = reference.reports[0].total
    assert record["round_points"][: len(points)].tolist() == twelfths(points)
    scores = [int(n) - 12 * p for n, p in zip(record["scores"], points, strict=False)]
    assert min(scores) >= 0
