"""What operators and handles read: records, attempts, counts, events, workers, schedules."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeVar

from leasemq.errors import CorruptRecord
from leasemq.protocol.model import DAY_MS, Keep, NoteKind, Outcome, Parent, Ref, Settled, State, Unique


class Durability(StrEnum):
    """What an accepted job survives; compared by name, D0 lowest."""

    D0 = "D0"  # dies with the process
    D1 = "D1"  # SIGKILL of every process
    D2 = "D2"  # power loss of the backend's host
    D3 = "D3"  # loss of a minority of replicas


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """What a backend can do, as data; checked when the app starts."""

    backend: str
    durability: Durability
    store_id: str  # random, made when the store was
    server: str  # product and version
    processes: bool  # several processes may share the store
    push: bool  # wake-ups arrive without asking
    exchange: bool  # settle and claim in one step
    transactions: bool  # enqueue and settle inside the caller's transaction
    one_step_across_queues: bool = False
    warnings: tuple[str, ...] = ()  # what about this server may lose jobs, for an operator


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedWrite:
    """A stale write that changed nothing but this note."""

    at_ms: int
    fence: int
    write: str  # renew, an Outcome, or a NoteKind
    answer: Settled = Settled.LOST


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One claim of a job and what became of it."""

    number: int
    worker: str
    incarnation: str
    fence: int
    claimed_ms: int
    renewed_ms: int
    ended_ms: int | None = None
    outcome: Outcome | None = None
    error: bytes | None = None
    replay: bool = False  # the first attempt after an operator's replay


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRecord:
    """Everything stored about one job."""

    ref: Ref
    task: str
    payload: bytes
    state: State
    priority: int
    created_ms: int
    due_ms: int  # when it was or will be eligible
    expires_ms: int | None
    attempts: int
    failures: int
    stalls: int
    max_stalls: int
    suspect: bool
    cancel_requested: bool
    fence: int  # the newest number given; 0: never claimed
    lease_until_ms: int | None
    ended_ms: int | None
    keep_until_ms: int | None
    result: bytes | None
    result_until_ms: int | None
    error: bytes | None
    reason: str | None
    progress: bytes | None
    checkpoint: bytes | None
    keep: Keep
    unique: Unique | None
    open_parents: tuple[Parent, ...]
    creator: Ref | None
    replays: int
    overrides: bytes
    headers: bytes
    history: tuple[Attempt, ...]  # oldest first, the newest 100
    refused: tuple[RefusedWrite, ...]  # oldest first, the newest 20
    refused_count: int
    log: tuple[bytes, ...]  # oldest first, the newest 100 lines
    trail: int = 0  # entries of its own trail that it keeps; 0: it has none
    born: str = field(default="", compare=False)  # a cursor of the queue's events from before its first


@dataclass(frozen=True, slots=True, kw_only=True)
class Slip:
    """The result of a completed job whose record is gone, or made way for the next life of its id."""

    ref: Ref
    task: str
    result: bytes
    until_ms: int  # kept so long


PAGE_BYTES = 1024 * 1024
Found = TypeVar("Found", bound="JobRecord | CorruptRecord")  # what is stored, or why it cannot be read


def fitting(found: Iterable[Found]) -> Iterator[Found]:
    """Answer the first of these whose values together have at most `PAGE_BYTES`; the first always fits."""
    left = PAGE_BYTES
    for place, one in enumerate(found):
        left -= values_bytes(one) if isinstance(one, JobRecord) else 0
        if left < 0 and place > 0:
            return
        yield one


def values_bytes(record: JobRecord) -> int:
    """Answer how many bytes the values of a record have together."""
    values = (record.result, record.error, record.progress, record.checkpoint)
    errors = (attempt.error for attempt in record.history)
    return sum(len(value) for value in (record.payload, *values, *errors, *record.log) if value is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """Which jobs; every given field must hold. Times compare with the end, or creation if not ended."""

    states: frozenset[State] = frozenset()  # empty: any
    task: str | None = None
    id_prefix: str | None = None
    older_than_ms: int | None = None  # age by the backend's clock, at least
    newer_than_ms: int | None = None  # and at most
    reason: str | None = None  # why it failed
    oldest_first: bool = False  # by acceptance; a cursor goes on in the order it was given in


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """Jobs in order of acceptance, newest first unless asked otherwise; `cursor` continues, None ends."""

    jobs: tuple[JobRecord, ...]
    cursor: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """Stored counts of one queue. accepted = the eight states + removed."""

    queue: str
    scheduled: int = 0
    waiting: int = 0
    active: int = 0
    blocked: int = 0
    completed: int = 0
    failed: int = 0
    cancelled: int = 0
    expired: int = 0
    accepted: int = 0
    removed: int = 0
    refused: int = 0  # stale writes that were noted on a job; these three count events, and only grow
    stalls: int = 0  # attempts that a sweep ended for a silent holder
    releases: int = 0  # attempts that their worker gave back
    paused: bool = False
    oldest_waiting_ms: int | None = None  # age of the job longest waiting

    @property
    def stored(self) -> int:
        """Jobs whose record is kept."""
        return self.accepted - self.removed

    @property
    def dead_letters(self) -> int:
        """Jobs that failed or expired, and are kept."""
        return self.failed + self.expired


class EventKind(StrEnum):
    """A state change that was written."""

    ENQUEUED = "enqueued"
    PROMOTED = "promoted"
    RESCHEDULED = "rescheduled"
    CLAIMED = "claimed"
    COMPLETED = "completed"
    RETRIED = "retried"
    FAILED = "failed"
    RELEASED = "released"
    SNOOZED = "snoozed"
    STALLED = "stalled"
    CANCEL_REQUESTED = "cancel_requested"
    CANCELLED = "cancelled"
    EXPIRED = "expired"
    UNBLOCKED = "unblocked"
    PROGRESS = "progress"
    REPLACED = "replaced"
    REPLAYED = "replayed"
    REMOVED = "removed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One state change of one job."""

    cursor: str
    at_ms: int
    ref: Ref
    kind: EventKind
    state: State | None  # the state it left the job in; None: the record is gone
    attempt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EventPage:
    """Events after a cursor, oldest first, and the cursor to go on from."""

    events: tuple[Event, ...]
    cursor: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TrailEntry:
    """One thing that happened to a job, or that it told of itself. `value`: of progress and log lines."""

    number: int  # from 1, without a gap, also where the oldest are no longer kept
    at_ms: int
    attempt: int
    kind: EventKind | NoteKind  # an event, or `NoteKind.LOG`
    state: State
    value: bytes | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TrailPage:
    """Entries after a cursor, oldest first, and the cursor to go on from; empty at the end, for now."""

    entries: tuple[TrailEntry, ...]
    cursor: str
    truncated: bool  # entries between the cursor (or the beginning) and these are no longer kept


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerInfo:
    """One life of one worker process, as it last announced itself."""

    worker: str
    incarnation: str
    host: str
    pid: int
    version: str
    queues: tuple[str, ...]
    slots: int
    running: int
    seen_ms: int = 0  # filled in by the backend
    jobs: tuple[Ref, ...] = ()  # that it holds, the first hundred; of one that ended, while it is written
    tasks: tuple[str, ...] = ()  # names and aliases that it knows; empty: it did not say


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """A recurring enqueue as data; `spec` is opaque to the backend."""

    name: str
    queue: str
    spec: bytes
    cursor_ms: int  # the last tick that was enqueued
    paused: bool = False


class CancelAnswer(StrEnum):
    """What cancelling found."""

    CANCELLED = "cancelled"  # it never starts
    CANCELLING = "cancelling"  # it runs; its only outcome is now cancelled
    FINISHED = "finished"
    NOT_FOUND = "not_found"


class Change(StrEnum):
    """What an operator's conditional change found."""

    DONE = "done"
    ILLEGAL = "illegal"  # the state does not allow it
    NOT_FOUND = "not_found"
    CONFLICT = "conflict"  # replay: the unique key is held by another job


@dataclass(frozen=True, slots=True, kw_only=True)
class Changed:
    """The answer for one job: what was done, the state found, and who holds the unique key."""

    change: Change
    state: State | None = None  # the state it was found in
    holder: Ref | None = None


EARLIEST = ""  # the cursor before the first event that is kept
BEGINNING = "0"  # the cursor before the first event that a queue ever had
EVENT_LIMIT = 100_000  # events kept per queue
EVENT_AGE_MS = 7 * DAY_MS
MAX_NEWEST = 1_000_000_000
RECORD_LIMIT = 1_000_000  # records of one terminal state, and results without a record, kept per queue
