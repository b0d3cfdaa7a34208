"""The kernels of ``ismcts``: one tree over what all can see, searched in a new deal every time.

Single-observer information-set Monte Carlo tree search: Cowling, Powley and Whitehouse,
*Information Set Monte Carlo Tree Search* (2012). Everything that is played is played face up, so a
node is the moves that lead to it. Each iteration deals the hidden cards anew and walks down the
moves that are possible in that deal; how often a move was available is counted beside how often it
was chosen.
"""

from __future__ import annotations

import numpy as np

from escoba_env.cards import NUM_ACTIONS, NUM_IDS
from escoba_env.engine.bits import lowest, single
from escoba_env.engine.counting import MOST_MOVES, make_desk, play_move, value_turns
from escoba_env.engine.jit import entry, kernel
from escoba_env.engine.outlook import greedy_action
from escoba_env.engine.record import NOBODY, STATE
from escoba_env.engine.search import (
    deal_world,
    is_decided,
    last_stock,
    list_root_moves,
    make_kit,
    play_turn,
    settled_action,
    word_of,
)
from escoba_env.engine.solve import CARD, MAX_TURNS, PLACE, TAKEN, actions_of, kinds_of

TREE = np.dtype(
    [
        ("card", np.int64),  # the move that leads here, so that those that do the same are equal
        ("taken", np.int64),
        ("place", np.int64),
        ("seat", np.int64),  # who makes it
        ("child", np.int64),  # the first move that follows, or NOBODY
        ("sibling", np.int64),  # the next one in place of this, or NOBODY
        ("visits", np.int64),
        ("available", np.int64),  # iterations in which it could have been chosen
        ("total", np.float64),  # margins of the side that makes it, summed
    ],
    align=True,
)
"""A move in the tree; row 0 is where the search begins."""


@kernel
def find_child(spec, tree, parent, card, taken, place):
    """The row of a move that follows ``parent``, or NOBODY."""
    if spec["setenta"] == 0 and spec["building"] == 0:
        # Two deals may name moves that do the same by other cards.
        card = kinds_of(single(card))
        taken = kinds_of(taken)
    else:
        card = single(card)
    at = tree[parent]["child"]
    while at != NOBODY:
        if tree[at]["card"] == card and tree[at]["taken"] == taken and tree[at]["place"] == place:
            return at
        at = tree[at]["sibling"]
    return NOBODY


@kernel
def add_child(spec, tree, parent, at, seat, card, taken, place):
    """Writes a move that follows ``parent`` into row ``at``."""
    tree[at]["card"] = single(card)
    tree[at]["taken"] = taken
    if spec["setenta"] == 0 and spec["building"] == 0:
        tree[at]["card"] = kinds_of(single(card))
        tree[at]["taken"] = kinds_of(taken)
    tree[at]["place"] = place
    tree[at]["seat"] = seat
    tree[at]["child"] = NOBODY
    tree[at]["sibling"] = tree[parent]["child"]
    tree[at]["visits"] = 0
    tree[at]["available"] = 0
    tree[at]["total"] = 0.0
    tree[parent]["child"] = at


@kernel
def move_by_value(spec, tree, parent, moves, number, children, hints, exploration, prior):
    """The move to follow at a node: UCB1 over those available, in favour of what looks good.

    The mean margin of a move counts together with ``prior`` visits in which it won the mean of all
    moves, plus what it is worth more than the average of them in ``hints``.

    Args:
        parent: The node.
        moves: The moves that are possible, in rows.
        number: How many there are.
        children: int64: the row in the tree of each, or NOBODY; filled in.
        hints: float64: the value of each.
        exploration: How much a move that was seldom tried is favoured, in points.
        prior: See above.

    Returns:
        The row in ``moves``.
    """
    total = 0.0
    visits = 0
    hint = 0.0
    for row in range(number):
        at = find_child(spec, tree, parent, moves[row, CARD], moves[row, TAKEN], moves[row, PLACE])
        children[row] = at
        hint += hints[row] / number
        if at != NOBODY:
            tree[at]["available"] += 1
            total += tree[at]["total"]
            visits += tree[at]["visits"]
    mean = total / visits if visits else 0.0
    best = 0
    highest = -np.inf
    for row in range(number):
        at = children[row]
        tried = 0
        won = 0.0
        possible = 1
        if at != NOBODY:
            tried = tree[at]["visits"]
            won = tree[at]["total"]
            possible = tree[at]["available"]
        score = (won + prior * (mean + hints[row] - hint)) / (tried + prior)
        score += exploration * np.sqrt(np.log(possible + 1.0) / (tried + 1.0))
        if score > highest:
            best = row
            highest = score
    return best


@kernel
def move_by_chance(spec, tree, parent, moves, number, children, hints, exploration):
    """The move to follow at a node: PUCT, by what a policy would choose.

    Source: Silver et al., *Mastering the game of Go without human knowledge* (2017), with the
    number of iterations in which a move was available in place of the node's visits.

    Args:
        parent: As for ``move_by_value``, like all that is not named here.
        hints: float64: the probability of each move; scaled to a sum of 1.
    """
    total = 0.0
    visits = 0
    whole = 1e-12
    for row in range(number):
        at = find_child(spec, tree, parent, moves[row, CARD], moves[row, TAKEN], moves[row, PLACE])
        children[row] = at
        whole += hints[row]
        if at != NOBODY:
            tree[at]["available"] += 1
            total += tree[at]["total"]
            visits += tree[at]["visits"]
    mean = total / visits if visits else 0.0
    best = 0
    highest = -np.inf
    for row in range(number):
        at = children[row]
        tried = 0
        score = mean
        possible = 1
        if at != NOBODY:
            tried = tree[at]["visits"]
            score = tree[at]["total"] / tried
            possible = tree[at]["available"]
        score += exploration * hints[row] / whole * np.sqrt(possible) / (tried + 1)
        if score > highest:
            best = row
            highest = score
    return best


@kernel
def add_up(spec, tree, path, length, margins):
    """Adds what a play-out has come to, by side, to every move that led to it."""
    tree[0]["visits"] += 1
    for i in range(length):
        at = path[i]
        tree[at]["visits"] += 1
        tree[at]["total"] += margins[tree[at]["seat"] % spec["sides"]]


@kernel
def iterate(
    spec,
    s,
    key,
    iteration,
    rollout,
    deals,
    solver_turns,
    exploration,
    prior,
    tree,
    size,
    path,
    children,
    copies,
    margins,
    kit,
):
    """Deals a world, walks down the tree, adds a move to it and plays on from there.

    Returns:
        The size of the tree afterwards.
    """
    desk = kit[0]
    moves = desk[3]
    stop = last_stock(spec, s, deals)
    copies[0] = s
    world = copies[0]
    deal_world(spec, world, kit[6], key, iteration)
    word = word_of(key, iteration)
    node = 0
    length = 0
    walking = True
    while not is_decided(spec, world, stop, solver_turns, kit, margins):
        number = list_root_moves(spec, world, desk) if walking else 0
        if number == 0:
            word += 1
            play_turn(spec, world, rollout, word, desk)
            walking = False
            continue
        value_turns(spec, world, desk, number)
        row = move_by_value(spec, tree, node, moves, number, children, desk[4], exploration, prior)
        card, taken, place = moves[row, CARD], moves[row, TAKEN], moves[row, PLACE]
        following = children[row]
        if following == NOBODY:
            following = size
            add_child(spec, tree, node, following, int(world["turn"]), card, taken, place)
            size += 1
            walking = False
        node = following
        path[length] = node
        length += 1
        play_move(spec, world, card, taken, place)
    add_up(spec, tree, path, length, margins)
    return size


@kernel
def most_visited(spec, s, tree, desk):
    """The lowest action that leads to the move that was chosen most often; ties: the better one."""
    moves = desk[3]
    number = list_root_moves(spec, s, desk)
    best = NOBODY
    action = -1
    for row in range(number):
        card, taken, place = moves[row, CARD], moves[row, TAKEN], moves[row, PLACE]
        at = find_child(spec, tree, 0, card, taken, place)
        if at == NOBODY:
            continue
        visits = tree[at]["visits"]
        more = best == NOBODY or visits > tree[best]["visits"]
        if not more and visits == tree[best]["visits"]:
            more = tree[at]["total"] > tree[best]["total"]
        if more:
            best = at
            action = lowest(actions_of(s, card, taken, place))
    return action


@entry
def search_trees(
    spec, records, keys, iterations, rollout, deals, solver_turns, exploration, prior, actions
):
    """Searches a tree for each decision and writes the action.

    Args:
        records: Views of the seat to move, or whole games, each its own only world.
        keys: int64 (n,): the keys of the decisions.
        iterations: Number of iterations, at least 1.
        rollout: As for ``search.play_on``.
        deals: As for ``search.search_worlds``.
        solver_turns: As for ``search.is_decided``.
        exploration: As for ``move_by_value``.
        prior: See there.
        actions: int64 (n,).
    """
    kit = make_kit()
    copies = np.empty(1, STATE)
    values = np.empty((1, NUM_ACTIONS), np.int64)
    tree = np.empty(iterations + 1, TREE)
    path = np.empty(MAX_TURNS + 1, np.int64)
    margins = np.empty(4)
    children = np.empty(MOST_MOVES, np.int64)
    for i in range(len(records)):
        s = records[i]
        actions[i] = settled_action(spec[0], s, solver_turns, kit, copies, values)
        if actions[i] >= 0:
            continue
        tree[0]["child"] = NOBODY
        tree[0]["visits"] = 0
        size = 1
        for iteration in range(iterations):
            size = iterate(
                spec[0],
                s,
                keys[i],
                iteration,
                rollout,
                deals,
                solver_turns,
                exploration,
                prior,
                tree,
                size,
                path,
                children,
                copies,
                margins,
                kit,
            )
        actions[i] = most_visited(spec[0], s, tree, kit[0])
        if actions[i] < 0:
            actions[i] = greedy_action(spec[0], s, kit[0][2][0])


# -- with a policy outside the kernels -------------------------------------------------------


@entry
def start_iteration(spec, records, keys, iteration, states, lengths):
    """Deals a world of each decision, at the top of its tree."""
    order = np.empty(NUM_IDS, np.int8)
    for i in range(len(records)):
        states[i] = records[i]
        deal_world(spec[0], states[i], order, keys[i], iteration)
        # What the policy draws from, if it draws.
        states[i]["seed"] = keys[i]
        states[i]["game_index"] = iteration
        lengths[i] = 0


@entry
def walk(
    spec,
    records,
    keys,
    iteration,
    live,
    states,
    probabilities,
    values,
    rollout,
    deals,
    solver_turns,
    exploration,
    trees,
    sizes,
    paths,
    lengths,
    grown,
    ended,
):
    """Goes one move down in the trees ``live``, or ends their iteration at a new move.

    Args:
        states: ``STATE`` (n,): where each tree's iteration is.
        probabilities: Float (len(live), 43): of the actions of the seat to move there.
        values: Float (len(live),): the margin that this seat expects, for two sides; or none (0,):
            then the game is played out.
        rollout: As for ``search.play_on``.
        deals: As for ``search.search_worlds``.
        solver_turns: As for ``search.is_decided``.
        exploration: As for ``move_by_chance``.
        trees: ``TREE`` (n, rows).
        sizes: int64 (n,): rows in use.
        paths: int64 (n, MAX_TURNS + 1): the rows walked so far, and
        lengths: int64 (n,): their number.
        grown: bool (n,): whether a move has been added.
        ended: bool (n,): whether the iteration is over.
    """
    kit = make_kit()
    desk = kit[0]
    moves = desk[3]
    hints = desk[4]
    children = np.empty(MOST_MOVES, np.int64)
    margins = np.empty(4)
    for j in range(len(live)):
        i = live[j]
        s = states[i]
        tree = trees[i]
        stop = last_stock(spec[0], records[i], deals)
        word = word_of(keys[i], iteration)
        number = 0
        while not is_decided(spec[0], s, stop, solver_turns, kit, margins):
            if grown[i] and len(values):
                side = int(s["turn"]) % 2
                margins[side] = values[j]
                margins[1 - side] = -values[j]
                break
            number = 0 if grown[i] else list_root_moves(spec[0], s, desk)
            if number:
                break
            grown[i] = True
            word += 1
            play_turn(spec[0], s, rollout, word, desk)
        if number == 0:
            add_up(spec[0], tree, paths[i], lengths[i], margins)
            ended[i] = True
            continue
        for row in range(number):
            actions = actions_of(s, moves[row, CARD], moves[row, TAKEN], moves[row, PLACE])
            alike = 0
            for other in range(number):
                alike += moves[other, CARD] == moves[row, CARD]
            # What a first pick has is shared by the moves that it can lead to.
            hints[row] = probabilities[j, lowest(actions)] / alike
        node = paths[i, lengths[i] - 1] if lengths[i] else 0
        row = move_by_chance(spec[0], tree, node, moves, number, children, hints, exploration)
        card, taken, place = moves[row, CARD], moves[row, TAKEN], moves[row, PLACE]
        at = children[row]
        if at == NOBODY:
            at = sizes[i]
            add_child(spec[0], tree, node, at, int(s["turn"]), card, taken, place)
            sizes[i] += 1
            grown[i] = True
        paths[i, lengths[i]] = at
        lengths[i] += 1
        play_move(spec[0], s, card, taken, place)


@entry
def end_trees(spec, records, trees, actions):
    """Writes the action of each decision."""
    desk = make_desk()
    for i in range(len(records)):
        action = most_visited(spec[0], records[i], trees[i], desk)
        actions[i] = action if action >= 0 else greedy_action(spec[0], records[i], desk[2][0])
