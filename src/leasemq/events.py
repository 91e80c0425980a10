"""What the runtime says about itself, as frozen values.

No event carries arguments or results. Whoever gives an observer gets the values; else `logs.py` writes them.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass

from leasemq.protocol.model import Outcome, Ref, Settled
from leasemq.protocol.names import mask_urls, shown

logger: logging.Logger = logging.getLogger("leasemq")
logger.addHandler(logging.NullHandler())


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerStarted:
    """A worker begins to claim."""

    worker: str
    incarnation: str
    queues: tuple[str, ...]
    slots: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Draining:
    """A worker was told to stop: it claims no more, and what runs may finish."""

    worker: str
    running: int
    drain_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerStopped:
    """A worker has ended; `unsettled` attempts are left to expire."""

    worker: str
    exit_code: int
    unsettled: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStarted:
    """An attempt begins."""

    ref: Ref
    task: str
    attempt: int
    fence: int


@dataclass(frozen=True, slots=True, kw_only=True)
class JobEnded:
    """An attempt's end was recorded."""

    ref: Ref
    task: str
    attempt: int
    fence: int
    outcome: Outcome
    reason: str | None = None
    delay_ms: int = 0  # until it is due again
    error_type: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseWasLost:
    """A write was refused: the attempt's fence is no longer the newest, or the job is gone."""

    ref: Ref
    task: str
    attempt: int
    fence: int
    write: str  # renew, an Outcome, or a NoteKind
    answer: Settled = Settled.LOST


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseInDanger:
    """A lease could not be renewed in time: its attempt is stopped, or (a thread) asked to."""

    ref: Ref
    task: str
    attempt: int
    fence: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LeasesInDanger:
    """So many leases could not be renewed in time; told at most once in a lease's length."""

    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class JobUnknown:
    """This worker does not know the task, or the envelope; the job is left for another."""

    ref: Ref
    task: str
    attempt: int
    fence: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MakingWay:
    """A suspect waits to run alone: nothing is claimed until what runs in this process has ended."""

    queue: str
    running: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StraysReleased:
    """Leases of this life of the worker that it did not know of were given back."""

    queue: str
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SettlementRefused:
    """The backend will not take an attempt's end; the job is left to its lease."""

    ref: Ref
    task: str
    attempt: int
    fence: int
    outcome: Outcome
    error: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "error", mask_urls(self.error))


@dataclass(frozen=True, slots=True, kw_only=True)
class HandlerStuck:
    """A function did not end when it was told to; it is left behind, its job given back."""

    ref: Ref
    task: str
    attempt: int
    fence: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EndIgnored:
    """A function came to something else (`what`) after its own transaction had completed the job."""

    ref: Ref
    task: str
    attempt: int
    fence: int
    what: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HandlerAbandoned:
    """A function ran on after its time-out: its job is given up, and its slot is taken until it ends."""

    ref: Ref
    task: str
    attempt: int
    fence: int
    stuck: int  # slots of this worker that are taken so
    slots: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HandlerReturned:
    """A function whose job had been given up has ended: its slot is free, and what it came to is dropped."""

    ref: Ref
    task: str
    attempt: int
    fence: int
    after_ms: int  # since its job was given up


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopStalled:
    """A function keeps the event loop from turning, or every thread from running. Told once per block."""

    ref: Ref
    task: str
    attempt: int
    fence: int
    blocked_ms: int  # so far, at least
    where: str | None  # the line that it is at; None: it had moved on
    holds_gil: bool = False  # nothing else could run in the process, heartbeats neither
    others: int = 0  # functions that ran too, any of which may have held the GIL


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopTurned:
    """The event loop turns again after a block that was told."""

    ref: Ref
    task: str
    attempt: int
    fence: int
    blocked_ms: int  # in all, at least


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendLost:
    """The backend cannot be reached; it is tried again with back-off, for ever."""

    error: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "error", mask_urls(self.error))


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendBack:
    """The backend answers again."""

    after_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueLost:
    """This queue has been out of reach for some time, while the backend serves others."""

    queue: str
    error: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "error", mask_urls(self.error))


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueReached:
    """A queue that was told to be out of reach is served again."""

    queue: str
    after_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessStarted:
    """The supervisor started a worker process."""

    worker: str
    pid: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessEnded:
    """A worker process ended; negative: by that signal. None: it is not started again."""

    worker: str
    pid: int
    exit_code: int
    restart_in_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepFailed:
    """One kind of maintenance met an error; the others went on."""

    queue: str
    chore: str
    error: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "error", mask_urls(self.error))


JobEvent = JobStarted | JobEnded
Event = (
    WorkerStarted
    | Draining
    | WorkerStopped
    | JobEvent
    | LeaseWasLost
    | LeaseInDanger
    | LeasesInDanger
    | JobUnknown
    | MakingWay
    | StraysReleased
    | SettlementRefused
    | HandlerStuck
    | EndIgnored
    | HandlerAbandoned
    | HandlerReturned
    | LoopStalled
    | LoopTurned
    | BackendLost
    | BackendBack
    | QueueLost
    | QueueReached
    | ProcessStarted
    | ProcessEnded
    | SweepFailed
)
Observer = Callable[[Event], None]


def line_of(event: Event) -> str:
    """Answer an event as one printable line: its name, then its fields."""
    fields = ((name, getattr(event, name)) for name in event.__slots__)
    told = " ".join(f"{name}={_spelled(value)}" for name, value in fields if value is not None)
    return f"{type(event).__name__} {told}"


class Herald:
    """Tells one observer what happens, one thing at a time. Its own error is logged and stops nothing.

    While the loop is stuck, another thread tells; all else is told in the loop's.
    """

    def __init__(self, observer: Observer, *, tells_each_job: bool = True) -> None:
        self._observer = observer
        self.tells_each_job = tells_each_job
        self._lock = threading.RLock()  # an observer may tell of itself

    def tell(self, event: Event) -> None:
        """Tell the observer, now, in this thread."""
        try:
            with self._lock:
                self._observer(event)
        except Exception:  # the observer is code of the user's, and must not end the worker
            told = {"leasemq_event": event}
            logger.exception(
                "the observer of %s raised: %s", type(event).__name__, line_of(event), extra=told
            )


def _spelled(value: object) -> str:
    if isinstance(value, Ref):
        return shown(f"{value.queue}/{value.id}#{value.generation}")
    if isinstance(value, tuple):
        return ",".join(_spelled(item) for item in value) or "-"
    return shown(mask_urls(str(value)))
