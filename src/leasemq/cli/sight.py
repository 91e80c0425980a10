"""What `watch` shows of a job at one moment: a line for programs, a bar for people. Values in, text out."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from leasemq.cli.printing import cut_to, text_width
from leasemq.protocol.names import shown
from leasemq.protocol.times import iso_utc

_GAP = "  "
_LEAST_BAR = 8  # columns; a terminal without room for them gets none
_MOST_BAR = 40
_LEAST_TEXT = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far the function said it is."""

    current: float
    total: float | None = None
    message: str | None = None
    data: Any = None  # plain data that it gave along

    @property
    def share(self) -> float | None:
        """What is done of the total, 0 to 1; None if no total makes sense of it."""
        if self.total is None or self.total <= 0:
            return None
        return min(1.0, max(0.0, self.current / self.total))

    @property
    def percent(self) -> int | None:
        """Whole per cents, rounded down: 100 is all of it."""
        return None if self.share is None else int(self.share * 100)

    @property
    def count(self) -> str:
        """`3/10`, or `3` where no total is known."""
        total = "" if self.total is None else f"/{_number(self.total)}"
        return f"{_number(self.current)}{total}"


def progress_of(plain: Any) -> Progress | None:
    """Answer stored progress; None if there is none, or it is in a form that only others know."""
    match plain:
        case {
            "current": int() | float() as current,
            "total": int() | float() | None as total,
            "message": str() | None as message,
        }:
            return Progress(current=current, total=total, message=message, data=plain.get("data"))
        case _:
            return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """A job when something happened to it."""

    at_ms: int
    queue: str
    id: str
    generation: int
    event: str
    state: str  # `removed`: its record is gone
    attempt: int
    progress: Progress | None = None
    note: str | None = None  # how it ended, in words

    @property
    def text(self) -> str:
        """What there is to read: how it ended, or what the function said last."""
        return self.note or (self.progress and self.progress.message) or ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Glyphs:
    """What an output can show: its encoding, and the characters of a bar in it."""

    encoding: str
    full: str = "█"
    empty: str = "░"
    left: str = ""
    right: str = ""
    ellipsis: str = "…"

    def escaped(self, text: str) -> str:
        """Answer a text as one printable line in this encoding."""
        return shown(text).encode(self.encoding, "backslashreplace").decode(self.encoding)


def glyphs_for(encoding: str | None) -> Glyphs:
    """Answer what an output of this encoding can show; None or an unknown one: ASCII."""
    blocks = Glyphs(encoding=encoding or "ascii")
    try:
        f"{blocks.full}{blocks.empty}{blocks.ellipsis}".encode(blocks.encoding)
    except LookupError:
        return _plain("ascii")
    except UnicodeEncodeError:
        return _plain(blocks.encoding)
    return blocks


def _plain(encoding: str) -> Glyphs:
    return Glyphs(encoding=encoding, full="#", empty="-", left="[", right="]", ellipsis="...")


def line_of(sight: Sight, glyphs: Glyphs) -> str:
    """Answer one line of eight columns with a tab between.

    Time, job, event, state, attempt, count, per cent, text; what there is none of is `-`. A text is
    escaped, so it holds neither a tab nor the end of the line.
    """
    progress = sight.progress
    columns = (
        iso_utc(sight.at_ms),
        glyphs.escaped(f"{sight.queue}/{sight.id}"),
        sight.event,
        sight.state,
        str(sight.attempt),
        "" if progress is None else progress.count,
        "" if progress is None or progress.percent is None else f"{progress.percent}%",
        glyphs.escaped(sight.text),
    )
    return "\t".join(column or "-" for column in columns)


def json_of(sight: Sight) -> str:
    """Answer one JSON object on one line, in ASCII."""
    progress: dict[str, Any] | None = None
    if sight.progress is not None:
        progress = {
            "current": sight.progress.current,
            "total": sight.progress.total,
            "percent": sight.progress.percent,
            "message": sight.progress.message,
            "data": sight.progress.data,
        }
    plain = {
        "at": iso_utc(sight.at_ms),
        "queue": sight.queue,
        "id": sight.id,
        "generation": sight.generation,
        "event": sight.event,
        "state": sight.state,
        "attempt": sight.attempt,
        "progress": progress,
        "note": sight.note,
    }
    return json.dumps(plain, ensure_ascii=True)


def bar_of(sight: Sight, elapsed_s: int, width: int, glyphs: Glyphs) -> str:
    """Answer one line of at most `width` columns: state, attempt, bar, per cent, count, text, elapsed.

    Where there is no room, the text goes first, then the bar, the time, the attempt and the numbers.
    """
    told = {
        "state": sight.state,
        "attempt": f"attempt {sight.attempt}" if sight.attempt else "",
        "bar": "",
        "numbers": _numbers(sight.progress),
        "text": "",
        "elapsed": _clock(elapsed_s),
    }
    for name in ("elapsed", "attempt", "numbers"):
        if _joined_width(told) <= width:
            break
        told[name] = ""
    room = width - _joined_width(told)
    share = None if sight.progress is None else sight.progress.share
    frame = len(_GAP) + len(glyphs.left) + len(glyphs.right)
    cells = min(max(_LEAST_BAR, width // 5), _MOST_BAR, room - frame)
    if share is not None and cells >= _LEAST_BAR:
        told["bar"] = _bar(share, cells, glyphs)
        room -= cells + frame
    text = glyphs.escaped(sight.text)
    if text and room >= min(_LEAST_TEXT, text_width(text)) + len(_GAP):
        told["text"] = cut_to(text, room - len(_GAP), glyphs.ellipsis)
    return cut_to(_joined(told), width, glyphs.ellipsis)


def _joined(told: dict[str, str]) -> str:
    return _GAP.join(part for part in told.values() if part)


def _joined_width(told: dict[str, str]) -> int:
    return text_width(_joined(told))


def _numbers(progress: Progress | None) -> str:
    if progress is None:
        return ""
    return progress.count if progress.percent is None else f"{progress.percent:3}%{_GAP}{progress.count}"


def _bar(share: float, cells: int, glyphs: Glyphs) -> str:
    full = int(share * cells)
    return f"{glyphs.left}{glyphs.full * full}{glyphs.empty * (cells - full)}{glyphs.right}"


def _clock(elapsed_s: int) -> str:
    minutes, seconds = divmod(max(0, elapsed_s), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"


def _number(value: float) -> str:
    return str(value) if isinstance(value, int) else f"{value:.6g}"
