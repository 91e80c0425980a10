"""Shows a run: on a terminal a block that is redrawn in place, elsewhere one line per event."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from typing import TextIO

BAR_CELLS = 40


class Screen:
    """Prints events as lasting lines, with the changing block below them. Owner: the demo's main thread."""

    def __init__(self, out: TextIO, *, is_live: bool) -> None:
        self._out = out
        self.is_live = is_live
        self._drawn: tuple[str, ...] = ()

    def say(self, text: str) -> None:
        """Print a line that stays."""
        self._out.write(f"{self._wiped()}{text}\n")
        self._out.flush()

    def draw(self, block: Sequence[str]) -> None:
        """Draw the block anew where it stands. Away from a terminal: nothing."""
        if not self.is_live or tuple(block) == self._drawn:
            return
        columns = shutil.get_terminal_size().columns
        lines = "".join(f"{line[: columns - 1]}\n" for line in block)  # a wrapped line would break the count
        self._out.write(f"{self._wiped()}{lines}")
        self._out.flush()
        self._drawn = tuple(block)

    def _wiped(self) -> str:
        """What wipes the block away (ECMA-48: CPL, then ED)."""
        lines, self._drawn = len(self._drawn), ()
        return f"\x1b[{lines}F\x1b[J" if lines else ""


def bar(done: int, total: int) -> str:
    """A bar of fixed width with the numbers behind it."""
    filled = BAR_CELLS * done // max(total, 1)
    return f"[{'#' * filled}{'.' * (BAR_CELLS - filled)}] {done}/{total}"


def table(rows: Sequence[tuple[str, str, str]]) -> list[str]:
    """Lay out rows of name, value and source; every value ends in the same column."""
    names = max(len(row[0]) for row in rows)
    values = max(len(row[1]) for row in rows)
    return [f"  {name:<{names}}  {value:>{values}}  {source}".rstrip() for name, value, source in rows]
