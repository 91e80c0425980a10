"""How answers look: aligned tables on a terminal, tab-separated lines elsewhere, JSON when asked for."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import unicodedata
from collections.abc import Iterable, Sequence

import click

from leasemq.protocol.names import shown

_GAP = "  "
_CUT = frozenset(  # may be shortened
    {"queue", "id", "task", "worker", "incarnation", "host", "queues", "holds", "value", "source"}
)
_LEAST_WIDTH = 8  # but not below this
_TIME = re.compile(r"(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d)\.\d{3}Z")


def print_json(value: object) -> None:
    """Print one JSON document; ASCII, so that no terminal acts on what a name holds."""
    click.echo(json.dumps(value, indent=2, ensure_ascii=True))


def print_table(headings: Iterable[str], rows: Iterable[Sequence[object]]) -> None:
    """Print rows under headings: on a terminal aligned and cut to its width, elsewhere whole, with tabs."""
    headings = list(headings)
    listed = [list(row) for row in rows]
    cells = [[_cell(value) for value in row] for row in listed]
    if not _on_terminal():
        for line in (headings, *cells):
            click.echo("\t".join(line))
        return
    cells = [[_TIME.sub(r"\1 \2", cell) for cell in line] for line in cells]
    numeric = [all(isinstance(row[i], int | float) for row in listed) for i in range(len(headings))]
    widths = _fitted(
        headings, [max(map(text_width, column)) for column in zip(headings, *cells, strict=True)]
    )
    click.echo(_styled(_line(headings, widths, numeric)))
    for line in cells:
        click.echo(_line(line, widths, numeric))


def print_fields(fields: Iterable[tuple[str, object]]) -> None:
    """Print names and values, one a line; what is None is left out."""
    listed = [(name, _cell(value)) for name, value in fields if value is not None]
    width = max((len(name) for name, _ in listed), default=0)
    for name, text in listed:
        click.echo(f"{name:<{width}}{_GAP}{text}" if _on_terminal() else f"{name}\t{text}")


def print_heading(text: str) -> None:
    """Print a line that begins a part."""
    click.echo(f"\n{_styled(text)}")


def print_text(text: str) -> None:
    """Print several lines of text from a job, each escaped and set in."""
    for line in text.splitlines():
        click.echo(f"  {shown(line)}")


def _cell(value: object) -> str:
    match value:
        case None:
            return "-"
        case bool():
            return "yes" if value else "no"
        case str():
            return shown(value)
        case list() | tuple():
            return ", ".join(_cell(item) for item in value) or "-"
        case dict():
            return shown(json.dumps(value, ensure_ascii=False, default=str))
        case _:
            return str(value)


def text_width(text: str) -> int:
    """Answer how many columns a terminal needs for a printable text."""
    return len(text) if text.isascii() else sum(map(_columns, text))


def _columns(character: str) -> int:
    wide = unicodedata.east_asian_width(character) in "WF"
    return 1 + wide - bool(unicodedata.combining(character))


def _fitted(headings: Sequence[str], widths: list[int]) -> list[int]:
    """Answer widths that fit the terminal, if names and texts alone may give way; the widest first."""
    room = shutil.get_terminal_size().columns - len(_GAP) * (len(widths) - 1)
    flexible = [i for i, heading in enumerate(headings) if heading in _CUT]
    while sum(widths) > room and any(widths[i] > _LEAST_WIDTH for i in flexible):
        widths[max(flexible, key=lambda i: widths[i])] -= 1
    return widths


def _line(cells: Sequence[str], widths: Sequence[int], numeric: Sequence[bool]) -> str:
    parts = [_padded(*column) for column in zip(cells, widths, numeric, strict=True)]
    return _GAP.join(parts).rstrip()


def cut_to(text: str, width: int, ellipsis: str = "…") -> str:
    """Answer the text, cut so that it needs at most `width` columns."""
    if text_width(text) <= width:
        return text
    ellipsis = ellipsis[: max(0, width)]
    room, kept = width - len(ellipsis), 0
    for character in text:
        room -= _columns(character)
        if room < 0:
            break
        kept += 1
    return f"{text[:kept]}{ellipsis}"


def _padded(text: str, width: int, is_number: bool) -> str:
    text = cut_to(text, width)
    space = " " * (width - text_width(text))
    return f"{space}{text}" if is_number else f"{text}{space}"


def _styled(text: str) -> str:
    is_plain = os.environ.get("NO_COLOR") or not _on_terminal()
    return text if is_plain else click.style(text, bold=True)


def _on_terminal() -> bool:
    return sys.stdout is not None and sys.stdout.isatty()  # None where it was closed before the start
