"""A game or a view as pixels, drawn with Pillow; no display is needed.

Import this module only where a picture is wanted: it needs the extra ``render``. Reads a game
record and shows what is in it; it knows no rule of the game.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from escoba_env.cards import FRENCH_RANKS, JOKERS, RANK_LETTERS, cards_in
from escoba_env.engine.record import GAME_OVER, NOBODY
from escoba_env.position import table_piles
from escoba_env.render.ansi import (
    OROS,
    SEVENS,
    headline,
    last_move,
    last_mover,
    leftovers,
    score_text,
    seat_name,
    stock_count,
    swept_table,
)
from escoba_env.rules import Rules

Color = tuple[int, int, int]
Points = list[tuple[float, float]]

WIDTH, HEIGHT = 1080, 760
CARD = (72, 110)
SMALL = (44, 67)
TINY = (33, 50)
_FINE = 4
"""Cards are drawn this many times larger and scaled down, which smooths their edges."""

FELT: Color = (24, 92, 66)
LIGHT: Color = (30, 106, 77)
RIM: Color = (17, 66, 48)
PANEL: Color = (18, 74, 53)
INK: Color = (236, 240, 230)
FAINT: Color = (160, 190, 172)
GOLD: Color = (245, 196, 66)
PAPER: Color = (250, 247, 238)
EDGE: Color = (120, 116, 104)
BACK: Color = (122, 36, 44)

_SPANISH: tuple[Color, ...] = ((203, 146, 22), (190, 42, 48), (38, 84, 160), (44, 120, 52))
_FRENCH: tuple[Color, ...] = ((196, 30, 40), (196, 30, 40), (24, 24, 28), (24, 24, 28))

_LEFT, _MIDDLE, _RIGHT = 0.39, 0.56, 0.73
_PIPS = {
    1: [(_MIDDLE, 0.5)],
    2: [(_MIDDLE, 0.28), (_MIDDLE, 0.72)],
    3: [(_MIDDLE, 0.22), (_MIDDLE, 0.5), (_MIDDLE, 0.78)],
    4: [(x, y) for y in (0.3, 0.7) for x in (_LEFT, _RIGHT)],
    5: [(x, y) for y in (0.25, 0.75) for x in (_LEFT, _RIGHT)] + [(_MIDDLE, 0.5)],
    6: [(x, y) for y in (0.22, 0.5, 0.78) for x in (_LEFT, _RIGHT)],
    7: [(x, y) for y in (0.22, 0.5, 0.78) for x in (_LEFT, _RIGHT)] + [(_MIDDLE, 0.36)],
}
"""Where the signs of a card lie, as shares of its width and height."""
_PIP_SIZE = {1: 0.34, 2: 0.21, 3: 0.19, 4: 0.16, 5: 0.15, 6: 0.145, 7: 0.12}
"""Radius of each sign as a share of the card's width."""


def draw(
    rules: Rules, episode: str, record: Any, *, faces: str = "spanish", note: str = ""
) -> NDArray[np.uint8]:
    """Draws the table: hands and piles around it, the cards on it, last move, turn and scores.

    Args:
        rules: Rules of the table.
        episode: ``"round"`` or ``"match"``.
        record: A game record, or the view of one seat, in which hidden cards lie face down.
        faces: ``"spanish"`` or ``"french"``.
        note: A last line to add.

    Returns:
        uint8 of shape (``HEIGHT``, ``WIDTH``, 3).
    """
    image = Image.new("RGB", (WIDTH, HEIGHT), RIM)
    pen = ImageDraw.Draw(image)
    pen.rounded_rectangle((8, 8, WIDTH - 9, HEIGHT - 9), 26, fill=FELT)
    pen.rounded_rectangle((302, 228, 778, 532), 40, fill=LIGHT)
    y = _write(pen, (28, 24), [headline(rules, episode, record)], INK, 19)
    score = score_text(rules, episode, record).split("; ")
    _write(pen, (28, y + 4), [line for part in score for line in _wrap(part, 360, 15)], FAINT, 15)
    for seat, center in enumerate(_centers(rules.players)):
        _draw_seat(image, pen, record, seat, center, faces)
    _draw_stock(image, pen, record, faces)
    _draw_table(image, pen, record, faces)
    _draw_last_move(image, pen, rules, record, faces)
    if int(record["phase"]) == GAME_OVER:
        pen.text((540, 350), "The game is over", INK, _font(26), "mm")
        pen.text((540, 388), score[0], GOLD, _font(17), "mm")
    if note:
        # Between the upper seat and the cards on the table.
        lines = _wrap(note, 800, 15)
        box = (120, 224, WIDTH - 120, 240 + 21 * len(lines))
        pen.rounded_rectangle(box, 12, fill=BACK, outline=GOLD, width=2)
        _write(pen, (140, 232), lines, INK, 15)
    return np.array(image, np.uint8)


def _centers(players: int) -> list[tuple[int, int]]:
    """Where each seat sits, seat 0 at the bottom and the next to its right."""
    bottom, right, top, left = (540, 640), (920, 380), (540, 118), (160, 380)
    return {2: [bottom, top], 3: [bottom, right, left], 4: [bottom, right, top, left]}[players]


def _draw_seat(
    image: Image.Image,
    pen: ImageDraw.ImageDraw,
    record: Any,
    seat: int,
    center: tuple[int, int],
    faces: str,
) -> None:
    x, y = center
    to_move = int(record["phase"]) != GAME_OVER and int(record["turn"]) == seat
    box = (x - 132, y - 100, x + 132, y + 100)
    outline, width = (GOLD, 3) if to_move else (RIM, 2)
    pen.rounded_rectangle(box, 16, fill=PANEL, outline=outline, width=width)
    pen.text((x, y - 83), seat_name(record, seat), GOLD if to_move else INK, _font(17), "mm")
    hand = [_card(card, CARD, faces) for card in cards_in(record["hands"][seat])]
    hidden = int(record["hand_counts"][seat]) - len(hand)
    hand += [_card_back(CARD)] * max(0, hidden)
    # A large hand overlaps so as to fit.
    step = min(CARD[0] + 8, (236 - CARD[0]) / max(1, len(hand) - 1))
    left = x - (step * (len(hand) - 1) + CARD[0]) / 2
    for i, card in enumerate(hand):
        _lay(image, (round(left + i * step), y - 66), card)
    pile = int(record["piles"][seat])
    escobas = int(record["escobas"][seat])
    parts = [
        _count(pile.bit_count(), "card"),
        _count((pile & OROS).bit_count(), "oro"),
        _count((pile & SEVENS).bit_count(), "seven"),
    ]
    pen.text((x, y + 61), "   ".join(parts), INK, _font(15), "mm")
    color = GOLD if escobas else FAINT
    pen.text((x, y + 83), _count(escobas, "escoba"), color, _font(15), "mm")


def _draw_stock(image: Image.Image, pen: ImageDraw.ImageDraw, record: Any, faces: str) -> None:
    number = stock_count(record)
    x, y = WIDTH - 100, 52
    if number:
        back = _card_back(SMALL)
        for i in range(min(3, math.ceil(number / 12))):
            _lay(image, (x + 3 * i, y + 3 * i), back)
        pen.text((x + SMALL[0] / 2, y - 16), f"stock: {number}", FAINT, _font(15), "mm")
    aside = int(record["set_aside"])
    if aside:
        pen.text((710, y - 16), "set aside", FAINT, _font(15), "lm")
        _draw_row(image, (710, y), 240, aside, faces)


def _draw_table(image: Image.Image, pen: ImageDraw.ImageDraw, record: Any, faces: str) -> None:
    piles = table_piles(record)
    picked = set(cards_in(record["picked"]))
    left, right, middle = 322, 758, 380
    if int(record["played"]) != NOBODY:
        top = middle - CARD[1] // 2
        pen.text((left + CARD[0] / 2, top - 18), "played", GOLD, _font(15), "mm")
        _frame(pen, (left, top), CARD)
        _lay(image, (left, top), _card(int(record["played"]), CARD, faces))
        left += CARD[0] + 24
    # Many cards are drawn small.
    size = next(s for s in (CARD, SMALL, TINY) if len(piles) <= _room(s, right - left) or s == TINY)
    columns = (right - left + 10) // (size[0] + 10)
    rows = max(1, math.ceil(len(piles) / columns))
    columns = math.ceil(len(piles) / rows)
    for i, pile in enumerate(piles):
        row, column = divmod(i, columns)
        in_row = min(columns, len(piles) - row * columns)
        at = (
            round((left + right - in_row * (size[0] + 10) + 10) / 2 + column * (size[0] + 10)),
            round(middle - (rows * (size[1] + 10) - 10) / 2 + row * (size[1] + 10)),
        )
        if not picked.isdisjoint(cards_in(pile)):
            _frame(pen, at, size)
        # The cards of a pile (building) overlap, each with its index in sight.
        step = min(size[1] // 4, 60 // max(1, pile.bit_count() - 1))
        for depth, card in enumerate(cards_in(pile)):
            _lay(image, (at[0], at[1] + depth * step), _card(card, size, faces))
    if not piles and int(record["phase"]) != GAME_OVER:
        pen.text(((left + right) / 2, middle), "the table is empty", FAINT, _font(17), "mm")


def _room(size: tuple[int, int], width: int) -> int:
    """Number of cards of a size that the middle of the table takes."""
    return (width + 10) // (size[0] + 10) * (300 // (size[1] + 10))


def _draw_last_move(
    image: Image.Image, pen: ImageDraw.ImageDraw, rules: Rules, record: Any, faces: str
) -> None:
    """Shows the last move at the lower left, and leftovers at the lower right."""
    x, y = 28, HEIGHT - 116
    move = last_move(record)
    if move is not None:
        verb = "played" if move.taken else "set" if move.onto else "laid"
        who = f"player_{last_mover(rules, record)} {verb}"
        pen.text((x, y - 16), who, FAINT, _font(15), "lm")
        _lay(image, (x, y), _card(move.card, SMALL, faces))
        if move.taken:
            swept = swept_table(record)
            label = "and swept the table" if swept else "and took"
            pen.text((x + 136, y - 16), label, GOLD if swept else FAINT, _font(15), "lm")
            _draw_row(image, (x + 136, y), 230, move.taken, faces)
    rest = leftovers(record)
    if rest:
        x = 710
        pen.text(
            (x, y - 16),
            f"leftovers, to player_{int(record['last_capturer'])}",
            FAINT,
            _font(15),
            "lm",
        )
        _draw_row(image, (x, y), 340, rest, faces)


def _draw_row(image: Image.Image, at: tuple[int, int], width: int, cards: int, faces: str) -> None:
    """Draws a row of small cards, overlapping where they would not fit."""
    number = cards.bit_count()
    step = min(SMALL[0] + 6, (width - SMALL[0]) / max(1, number - 1))
    for i, card in enumerate(cards_in(cards)):
        _lay(image, (round(at[0] + i * step), at[1]), _card(card, SMALL, faces))


def _lay(image: Image.Image, at: tuple[int, int], card: Image.Image) -> None:
    image.paste(card, at, card)


# -- cards ----------------------------------------------------------------------------------


@lru_cache(maxsize=256)
def _card(card: int, size: tuple[int, int], faces: str) -> Image.Image:
    """Draws a card face up."""
    width, height = size[0] * _FINE, size[1] * _FINE
    image, pen = _blank(width, height, PAPER)
    if card in JOKERS:
        _star(pen, width / 2, height / 2, width * 0.34, BACK)
        _index(pen, width, height, f"J{card - JOKERS[0] + 1}", BACK)
        return image.resize(size, Image.Resampling.LANCZOS)
    suit, rank = divmod(card, 10)
    french = faces == "french"
    color = (_FRENCH if french else _SPANISH)[suit]
    draw_suit = (_DRAW_FRENCH if french else _DRAW_SPANISH)[suit]
    letter = (FRENCH_RANKS if french else RANK_LETTERS)[rank]
    number = rank + 1
    if number in _PIPS:
        for x, y in _PIPS[number]:
            draw_suit(pen, x * width, y * height, _PIP_SIZE[number] * width, color)
    else:
        box = (width * 0.27, height * 0.18, width * 0.81, height * 0.82)
        pen.rounded_rectangle(box, width * 0.06, outline=color, width=_FINE)
        font = _font(round(width * 0.42))
        pen.text((width * 0.54, height * 0.37), letter, color, font, "mm")
        draw_suit(pen, width * 0.54, height * 0.65, width * 0.15, color)
    _index(pen, width, height, letter, color)
    draw_suit(pen, width * 0.13, height * 0.23, width * 0.07, color)
    return image.resize(size, Image.Resampling.LANCZOS)


@lru_cache(maxsize=4)
def _card_back(size: tuple[int, int]) -> Image.Image:
    """Draws a card face down."""
    width, height = size[0] * _FINE, size[1] * _FINE
    image, pen = _blank(width, height, BACK)
    inset = width * 0.09
    box = (inset, inset, width - inset, height - inset)
    pen.rounded_rectangle(box, width * 0.06, outline=PAPER, width=_FINE)
    for x in range(2, 7):
        for y in range(2, 11):
            at = (x * width / 8, y * height / 12)
            pen.regular_polygon((*at, width * 0.05), 4, rotation=45, fill=(168, 82, 84))
    return image.resize(size, Image.Resampling.LANCZOS)


def _blank(width: int, height: int, color: Color) -> tuple[Image.Image, ImageDraw.ImageDraw]:
    image = Image.new("RGBA", (width, height), (0, 0, 0, 0))
    pen = ImageDraw.Draw(image)
    box = (0, 0, width - 1, height - 1)
    pen.rounded_rectangle(box, width * 0.1, fill=color, outline=EDGE, width=_FINE)
    return image, pen


def _index(pen: ImageDraw.ImageDraw, width: float, height: float, text: str, color: Color) -> None:
    pen.text((width * 0.13, height * 0.11), text, color, _font(round(width * 0.21)), "mm")


def _frame(pen: ImageDraw.ImageDraw, at: tuple[int, int], size: tuple[int, int]) -> None:
    """Marks a card that has been chosen."""
    x, y = at
    pen.rounded_rectangle((x - 5, y - 5, x + size[0] + 4, y + size[1] + 4), 11, fill=GOLD)


# -- suits: each draws its sign around (x, y) within the radius r ----------------------------


def _oro(pen: ImageDraw.ImageDraw, x: float, y: float, r: float, color: Color) -> None:
    pen.circle((x, y), r, fill=color)
    pen.circle((x, y), r * 0.78, fill=(250, 214, 92))
    pen.circle((x, y), r * 0.58, fill=color)
    pen.circle((x, y), r * 0.26, fill=(250, 214, 92))


def _copa(pen: ImageDraw.ImageDraw, x: float, y: float, r: float, color: Color) -> None:
    pen.pieslice((x - 0.8 * r, y - 1.65 * r, x + 0.8 * r, y + 0.35 * r), 0, 180, fill=color)
    pen.ellipse((x - 0.8 * r, y - 0.95 * r, x + 0.8 * r, y - 0.35 * r), fill=color)
    pen.ellipse((x - 0.6 * r, y - 0.83 * r, x + 0.6 * r, y - 0.49 * r), fill=GOLD)
    pen.rectangle((x - 0.14 * r, y + 0.2 * r, x + 0.14 * r, y + 0.8 * r), fill=color)
    pen.pieslice((x - 0.6 * r, y + 0.6 * r, x + 0.6 * r, y + 1.35 * r), 180, 360, fill=color)


def _espada(pen: ImageDraw.ImageDraw, x: float, y: float, r: float, color: Color) -> None:
    blade: Points = [(0, -1.1), (0.3, -0.75), (0.26, 0.4), (-0.26, 0.4), (-0.3, -0.75)]
    pen.polygon([(x + a * r, y + b * r) for a, b in blade], fill=color)
    pen.line((x, y - 0.8 * r, x, y + 0.3 * r), fill=(150, 184, 230), width=max(1, round(0.1 * r)))
    pen.rounded_rectangle((x - 0.7 * r, y + 0.34 * r, x + 0.7 * r, y + 0.58 * r), 0.1 * r, GOLD)
    pen.rectangle((x - 0.14 * r, y + 0.58 * r, x + 0.14 * r, y + 0.9 * r), fill=color)
    pen.circle((x, y + 0.95 * r), 0.22 * r, fill=GOLD)


def _basto(pen: ImageDraw.ImageDraw, x: float, y: float, r: float, color: Color) -> None:
    # A tapered cudgel, leaning to the right, with two cut twigs.
    club: Points = [
        (0.38, -1.02),
        (0.8, -0.6),
        (0.66, -0.2),
        (-0.52, 1.05),
        (-0.74, 0.83),
        (0, -0.62),
    ]
    twigs: tuple[Points, ...] = (
        [(0.05, -0.35), (-0.5, -0.5), (-0.62, -0.28), (-0.16, -0.04)],
        [(0.3, 0.2), (0.72, 0.42), (0.58, 0.64), (0.08, 0.42)],
    )
    for shape in (club, *twigs):
        pen.polygon([(x + a * r, y + b * r) for a, b in shape], fill=color)
    for a, b in ((0.5, -0.72), (0.16, -0.1), (-0.3, 0.5)):
        pen.circle((x + a * r, y + b * r), 0.11 * r, fill=(196, 160, 92))


def _diamond(pen: ImageDraw.ImageDraw, x: float, y: float, r: float, color: Color) -> None:
    pen.polygon([(x, y - r), (x + 0.72 * r, y), (x, y + r), (x - 0.72 * r, y)], fill=color)


def _heart(pen: ImageDraw.ImageDraw, x: float, y: float, r: float, color: Color) -> None:
    pen.circle((x - 0.44 * r, y - 0.35 * r), 0.5 * r, fill=color)
    pen.circle((x + 0.44 * r, y - 0.35 * r), 0.5 * r, fill=color)
    pen.polygon(
        [(x - 0.88 * r, y - 0.12 * r), (x + 0.88 * r, y - 0.12 * r), (x, y + r)], fill=color
    )


def _spade(pen: ImageDraw.ImageDraw, x: float, y: float, r: float, color: Color) -> None:
    pen.circle((x - 0.42 * r, y + 0.25 * r), 0.46 * r, fill=color)
    pen.circle((x + 0.42 * r, y + 0.25 * r), 0.46 * r, fill=color)
    pen.polygon(
        [(x - 0.84 * r, y + 0.08 * r), (x + 0.84 * r, y + 0.08 * r), (x, y - r)], fill=color
    )
    pen.polygon([(x, y), (x + 0.34 * r, y + r), (x - 0.34 * r, y + r)], fill=color)


def _club(pen: ImageDraw.ImageDraw, x: float, y: float, r: float, color: Color) -> None:
    for a, b in ((0, -0.5), (-0.48, 0.2), (0.48, 0.2)):
        pen.circle((x + a * r, y + b * r), 0.47 * r, fill=color)
    pen.polygon([(x, y - 0.2 * r), (x + 0.34 * r, y + r), (x - 0.34 * r, y + r)], fill=color)


_DRAW_SPANISH = (_oro, _copa, _espada, _basto)
_DRAW_FRENCH = (_diamond, _heart, _spade, _club)


def _star(pen: ImageDraw.ImageDraw, x: float, y: float, r: float, color: Color) -> None:
    points: Points = []
    for i in range(10):
        radius = r if i % 2 == 0 else 0.42 * r
        angle = math.pi * (i / 5 - 0.5)
        points.append((x + radius * math.cos(angle), y + radius * math.sin(angle)))
    pen.polygon(points, fill=color)


# -- text -----------------------------------------------------------------------------------


@lru_cache(maxsize=64)
def _font(size: int) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    return ImageFont.load_default(size)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _wrap(text: str, width: int, size: int) -> list[str]:
    """Breaks text into lines no wider than ``width``."""
    lines = [""]
    for word in text.split():
        longer = f"{lines[-1]} {word}".strip()
        if _font(size).getlength(longer) <= width or not lines[-1]:
            lines[-1] = longer
        else:
            lines.append(word)
    return lines


def _write(
    pen: ImageDraw.ImageDraw, at: tuple[int, int], lines: list[str], color: Color, size: int
) -> int:
    """Writes lines below each other and returns where the next one would be."""
    x, y = at
    for line in lines:
        pen.text((x, y), line, color, _font(size))
        y += round(size * 1.4)
    return y
