"""What a running job tells of itself, as it is stored and as it is read: progress, log lines, its history."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from leasemq.errors import CorruptRecord, PayloadRejected
from leasemq.protocol.envelope import decode_plain, encode_plain
from leasemq.protocol.insight import EventKind, TrailEntry, TrailPage
from leasemq.protocol.model import NoteKind, State
from leasemq.protocol.names import shown

PROGRESS_LIMIT_BYTES = 64 * 1024
LOG_LINE_LIMIT_BYTES = 16 * 1024

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a job said it was, with whatever plain data it gave along; `attempt` said so."""

    current: float
    total: float | None = None
    message: str | None = None
    data: Any = None
    attempt: int = 0  # 0: not known

    @property
    def fraction(self) -> float | None:
        """Current by total, from 0 to 1; None without a total above 0."""
        return None if not self.total or self.total < 0 else min(1.0, max(0.0, self.current / self.total))


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryEntry:
    """One thing that happened to a job, or that it told of itself.

    `kind` is an event's, such as `claimed`, or `log`; `progress` comes with the kind `progress`, `message`
    with `log`.
    """

    number: int  # from 1, without a gap
    at: datetime  # by the backend's clock, in UTC
    attempt: int
    kind: str
    state: State
    progress: Progress | None = None
    message: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryPage:
    """Entries, the oldest first. `cursor` goes on from here, also when more has happened since.

    `truncated`: entries between the cursor that was given (or the beginning) and these are no longer kept.
    """

    entries: tuple[HistoryEntry, ...]
    cursor: str
    truncated: bool


def encode_progress(
    current: float, total: float | None, message: str | None, data: object, attempt: int
) -> bytes:
    """Answer progress as it is stored. Raises: PayloadRejected, PayloadTooLarge."""
    for name, value in (("current", current), ("total", 0 if total is None else total)):
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise PayloadRejected(f"progress has {name}={value!r:.100}, which is no number")
    if message is not None and not isinstance(message, str):
        raise PayloadRejected(f"progress has message={message!r:.100}, which is no text")
    told: dict[str, object] = {"current": current, "total": total, "message": message, "attempt": attempt}
    if data is not None:
        told["data"] = data
    return encode_plain(told, PROGRESS_LIMIT_BYTES, what="progress")


def decode_progress(stored: bytes, *, job: str) -> Progress:
    """Answer what `encode_progress` was given. Raises: CorruptRecord."""
    match decode_plain(stored, what="progress", job=job):
        case {
            "current": int() | float() as current,
            "total": int() | float() | None as total,
            "message": str() | None as message,
            **more,
        }:
            attempt = more.get("attempt", 0)
            return Progress(
                current=current,
                total=total,
                message=message,
                data=more.get("data"),
                attempt=attempt if isinstance(attempt, int) else 0,
            )
        case other:
            raise CorruptRecord(f"the progress of job {shown(job)} is {other!r:.100}")


def encode_log_line(message: object) -> bytes:
    """Answer a log line as it is stored. Raises: PayloadRejected, PayloadTooLarge."""
    if not isinstance(message, str):
        raise PayloadRejected(f"a log line is a text, not {message!r:.100}")
    return encode_plain(message, LOG_LINE_LIMIT_BYTES, what="log line")


def decode_log_line(stored: bytes, *, job: str) -> str:
    """Answer what `encode_log_line` was given. Raises: CorruptRecord."""
    line = decode_plain(stored, what="log line", job=job)
    if not isinstance(line, str):
        raise CorruptRecord(f"a log line of job {shown(job)} is {line!r:.100}")
    return line


def history_page(page: TrailPage, *, job: str) -> HistoryPage:
    """Answer a page of a trail with its values decoded. Raises: CorruptRecord."""
    entries = tuple(_history_entry(entry, job) for entry in page.entries)
    return HistoryPage(entries=entries, cursor=page.cursor, truncated=page.truncated)


def _history_entry(entry: TrailEntry, job: str) -> HistoryEntry:
    progress, message = None, None
    if entry.value is not None and entry.kind is EventKind.PROGRESS:
        progress = decode_progress(entry.value, job=job)
    elif entry.value is not None and entry.kind is NoteKind.LOG:
        message = decode_log_line(entry.value, job=job)
    return HistoryEntry(
        number=entry.number,
        at=_EPOCH + timedelta(milliseconds=entry.at_ms),
        attempt=entry.attempt,
        kind=entry.kind.value,
        state=entry.state,
        progress=progress,
        message=message,
    )
