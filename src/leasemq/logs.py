"""The log: what events look like in it, and whose line a line is.

The library logs to the logger `leasemq` and to loggers below it; the root logger and its handlers are the
program's. `JobFields` tells on any record, also on those of your own loggers, which job was running when
it was written; `JsonFormatter` writes one JSON object a line with the same fields.
"""

from __future__ import annotations

import json
import logging
import sys
from contextvars import ContextVar
from typing import Any

from leasemq.context import running_attempt
from leasemq.events import (
    BackendBack,
    BackendLost,
    Draining,
    Event,
    HandlerReturned,
    Herald,
    JobEnded,
    JobStarted,
    LeaseInDanger,
    LoopTurned,
    Observer,
    ProcessEnded,
    ProcessStarted,
    QueueLost,
    QueueReached,
    SettlementRefused,
    StraysReleased,
    WorkerStarted,
    WorkerStopped,
    line_of,
    logger,
)
from leasemq.protocol.model import Outcome, Ref
from leasemq.protocol.names import mask_urls
from leasemq.protocol.times import iso_utc

this_worker: ContextVar[tuple[str, str] | None] = ContextVar("leasemq_this_worker", default=None)
"""Name and incarnation of the worker whose loops, threads and functions run here."""

how_printed: ContextVar[tuple[str, bool] | None] = ContextVar("leasemq_how_printed", default=None)
"""Level, and whether as JSON, where this program prints the log; None where that is the user's affair."""

FIELDS = ("worker", "incarnation", "queue", "task", "job", "generation", "attempt", "fence")
_PREFIX = "leasemq_"
_EVENT = f"{_PREFIX}event"

_LEVELS: dict[type, int] = {
    WorkerStarted: logging.INFO,
    Draining: logging.INFO,
    WorkerStopped: logging.INFO,
    ProcessStarted: logging.INFO,
    JobStarted: logging.DEBUG,
    LeaseInDanger: logging.DEBUG,  # an outage would fill the log with them; LeasesInDanger tells of all
    StraysReleased: logging.INFO,
    HandlerReturned: logging.INFO,
    LoopTurned: logging.INFO,
    BackendBack: logging.INFO,
    BackendLost: logging.ERROR,
    QueueReached: logging.INFO,
    QueueLost: logging.ERROR,
    SettlementRefused: logging.ERROR,
}
_ENDINGS: dict[Outcome, int] = {
    Outcome.COMPLETED: logging.DEBUG,
    Outcome.RELEASED: logging.DEBUG,  # told by its cause: a drain, an outage, an unknown task
    Outcome.FAILED: logging.ERROR,
    Outcome.RETRIED: logging.WARNING,
    Outcome.STALLED: logging.WARNING,
}


def level_of(event: Event) -> int:
    """Answer the level at which an event is logged."""
    if isinstance(event, JobEnded):
        return _ENDINGS.get(event.outcome, logging.INFO)
    if isinstance(event, ProcessEnded) and event.exit_code == 0:
        return logging.INFO
    return _LEVELS.get(type(event), logging.WARNING)


def log_event(event: Event) -> None:
    """Log an event: the observer of whoever gives none."""
    logger.log(level_of(event), "%s", _Line(event), extra={_EVENT: event})


def herald_for(observer: Observer | None) -> Herald:
    """Answer who tells this observer; None: the log hears."""
    # Constructing a value per job that nobody will see costs more than claiming it.
    tells_each_job = observer is not None or logger.isEnabledFor(logging.DEBUG)
    return Herald(observer or log_event, tells_each_job=tells_each_job)


class JobFields(logging.Filter):
    """Tells whose a record is: `leasemq_queue`, `_task`, `_job`, `_generation`, `_attempt`, `_fence`.

    Also `leasemq_worker` and `leasemq_incarnation`. Outside of a job, or of a worker, they are None. To be
    added to a handler, so that it sees the records of every logger: `handler.addFilter(JobFields())`.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """Add the fields, unless an earlier filter has; lets every record pass."""
        if f"{_PREFIX}job" not in record.__dict__:
            told = {**_here(), **_told_by_event(getattr(record, _EVENT, None))}
            record.__dict__.update({f"{_PREFIX}{name}": told.get(name) for name in FIELDS})
        return True


class JsonFormatter(logging.Formatter):
    """One JSON object a line: at, level, logger, event, message, the fields of `JobFields`, traceback.

    What an event says is given as fields of their own too. What does not apply is left out. Passwords in
    URLs are masked; every control character is escaped, so that a record is always one line.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Answer the line."""
        event = getattr(record, _EVENT, None)
        line: dict[str, object] = {
            "at": iso_utc(int(record.created * 1_000)),
            "level": record.levelname,
            "logger": record.name,
            "event": None if event is None else type(event).__name__,
            "message": mask_urls(record.getMessage()),
            **_fields(record),
            **{name: _masked(value) for name, value in _told_by_event(event).items() if name not in FIELDS},
            "traceback": mask_urls("\n".join(_traceback(self, record))) or None,
        }
        return json.dumps({name: value for name, value in line.items() if value is not None}, default=str)


class LineFormatter(logging.Formatter):
    """Lines for people: time, level, worker, message, and the job if an event does not name it already.

    Control characters are escaped and passwords in URLs masked; a traceback follows its line, set in.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Answer the line, and those of a traceback."""
        fields = _fields(record)
        event = getattr(record, _EVENT, None)
        parts = [iso_utc(int(record.created * 1_000)), record.levelname]
        if (worker := fields["worker"]) is not None and not hasattr(event, "worker"):
            parts.append(f"[{worker}]")
        if not f"{record.name}.".startswith("leasemq."):
            parts.append(f"{record.name}:")
        parts.append(record.getMessage())
        if fields["job"] is not None and not hasattr(event, "ref"):
            job = f"ref={fields['queue']}/{fields['job']}#{fields['generation']}"
            parts.append(f"({job} task={fields['task']} attempt={fields['attempt']} fence={fields['fence']})")
        lines = [" ".join(parts), *(f"    {line}" for line in _traceback(self, record))]
        return "\n".join(_printable(mask_urls(line)) for line in lines)


def print_to_stderr(level: str, *, as_json: bool) -> None:
    """Write the library's own log to stderr; the root logger and its handlers are left alone.

    A program that configures no logging has its warnings printed by `logging.lastResort`, as bare texts. Here
    they look like the lines beside them, and say in which job they were written.
    """
    formatter: logging.Formatter = JsonFormatter() if as_json else LineFormatter()
    logger.addHandler(_stderr(formatter))
    logger.setLevel(level)
    logger.propagate = False
    last = _stderr(formatter)
    last.setLevel(logging.WARNING)
    logging.lastResort = last
    how_printed.set((level, as_json))


def told_to_child() -> str:
    """Answer what a child process needs to print its log as this process does."""
    return json.dumps([how_printed.get(), this_worker.get()])


def print_as_told(told: str) -> None:
    """Print the log as the process does that called `told_to_child`."""
    printed, worker = json.loads(told)
    if printed is not None:
        print_to_stderr(printed[0], as_json=printed[1])
    this_worker.set(None if worker is None else (worker[0], worker[1]))


def _stderr(formatter: logging.Formatter) -> logging.StreamHandler[Any]:
    writer: logging.StreamHandler[Any] = logging.StreamHandler(sys.stderr)
    writer.setFormatter(formatter)
    writer.addFilter(JobFields())
    return writer


class _Line:
    """A line that is only spelled if some handler writes it."""

    __slots__ = ("_event",)

    def __init__(self, event: Event) -> None:
        self._event = event

    def __str__(self) -> str:
        return line_of(self._event)


def _here() -> dict[str, object]:
    told: dict[str, object] = {}
    if (worker := this_worker.get()) is not None:
        told["worker"], told["incarnation"] = worker
    if (running := running_attempt.get()) is not None:
        told.update(_told_by_ref(running.ref))
        told.update(task=running.task, attempt=running.attempt, fence=running.fence)
    return told


def _told_by_event(event: Any) -> dict[str, object]:
    if event is None:
        return {}
    told = {name: getattr(event, name) for name in event.__slots__}
    ref = told.pop("ref", None)
    return told if ref is None else {**told, **_told_by_ref(ref)}


def _told_by_ref(ref: Ref) -> dict[str, object]:
    return {"queue": ref.queue, "job": ref.id, "generation": ref.generation}


def _fields(record: logging.LogRecord) -> dict[str, object]:
    JobFields().filter(record)
    return {name: getattr(record, f"{_PREFIX}{name}", None) for name in FIELDS}


def _traceback(formatter: logging.Formatter, record: logging.LogRecord) -> list[str]:
    lines = (
        []
        if record.exc_info is None or record.exc_info[0] is None
        else [formatter.formatException(record.exc_info)]
    )
    if not lines and record.exc_text:  # a record that came through a queue of records
        lines = [record.exc_text]
    if record.stack_info:
        lines.append(formatter.formatStack(record.stack_info))
    return "\n".join(lines).splitlines()


def _masked(value: object) -> object:
    return mask_urls(value) if isinstance(value, str) else value


def _printable(text: str) -> str:
    if text.isprintable():
        return text
    return "".join(
        one if one.isprintable() else one.encode("unicode_escape", "surrogatepass").decode("ascii")
        for one in text
    )
