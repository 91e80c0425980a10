"""The nouns of the contract as frozen values: job, lease, fence, settlement, outcome, state.

Durations and instants are integer milliseconds; instants are the backend's clock, epoch UTC. What an
operator reads (records, counts, events, workers, schedules) lives in `protocol/insight.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from leasemq.protocol.record import record

MINUTE_MS = 60_000
DAY_MS = 24 * 60 * MINUTE_MS
FENCE_LIMIT = 2**53  # exact as a double in Lua, JSON and JavaScript
HISTORY_LIMIT = 100  # attempts, each with its error, kept per job
REFUSED_LIMIT = 20  # refused writes kept per job
TRAIL_LIMIT = 10_000  # entries of a job's own trail, at most
PRIORITIES = range(-100, 101)


class State(StrEnum):
    """Where a job is; the last four never change again but by replay or reuse."""

    SCHEDULED = "scheduled"
    WAITING = "waiting"
    ACTIVE = "active"
    BLOCKED = "blocked"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    EXPIRED = "expired"

    @property
    def is_terminal(self) -> bool:
        """Whether the job has ended."""
        return self in TERMINAL


TERMINAL = frozenset({State.COMPLETED, State.FAILED, State.CANCELLED, State.EXPIRED})
DEAD = frozenset({State.FAILED, State.EXPIRED})
NOT_STARTED = frozenset({State.SCHEDULED, State.WAITING, State.BLOCKED})


@record(frozen=True, slots=True, kw_only=True)
class Ref:
    """One life of one id: what a handle names."""

    queue: str
    id: str
    generation: int


@record(frozen=True, slots=True, kw_only=True)
class Fence:
    """Identity of one lease: a number that grows at every claim, and the claim's request id."""

    number: int
    nonce: str


@record(frozen=True, slots=True, kw_only=True)
class Keep:
    """How long records stay after their end. 0 removes the record in the step that ends the job."""

    result_ms: int = DAY_MS
    record_ms: int = 2 * DAY_MS  # completed and cancelled: a record outlives its result by a day
    dead_ms: int = 30 * DAY_MS  # failed and expired: dead letters

    def for_state(self, state: State) -> int:
        """Milliseconds that a record which ended in `state` is kept."""
        return self.dead_ms if state in DEAD else self.record_ms


class UniqueMode(StrEnum):
    """What happens to an enqueue whose unique key is held."""

    SKIP = "skip"  # answered with the holder
    REPLACE = "replace"  # a holder that has not started takes the new payload
    DEBOUNCE = "debounce"  # as replace, and it becomes due a window from now
    THROTTLE = "throttle"  # one per window, whatever became of the holder


class UniqueUntil(StrEnum):
    """When the key is freed (throttle: only by its window)."""

    START = "start"
    END = "end"


@dataclass(frozen=True, slots=True, kw_only=True)
class Unique:
    """A key that at most one job of the queue holds; `window_ms` frees it at the latest."""

    key: str
    mode: UniqueMode = UniqueMode.SKIP
    until: UniqueUntil = UniqueUntil.END
    window_ms: int | None = None


class OnParentFailure(StrEnum):
    """What a dependant does when a parent ends other than completed."""

    FAIL = "fail"
    IGNORE = "ignore"
    KEEP = "keep"  # stays blocked until a replay of the parent completes


@dataclass(frozen=True, slots=True, kw_only=True)
class Parent:
    """A job that must end first; it may live in another queue."""

    queue: str
    id: str
    on_failure: OnParentFailure = OnParentFailure.FAIL


@record(frozen=True, slots=True, kw_only=True)
class NewJob:
    """A request to store a job. Its id is its request id: repeated, it is answered, not stored twice."""

    id: str
    task: str
    payload: bytes
    priority: int = 0
    delay_ms: int = 0
    due_at_ms: int | None = None  # an absolute instant; wins over delay_ms; past means now
    ttl_ms: int | None = None
    max_stalls: int = 2
    keep: Keep = Keep()
    unique: Unique | None = None
    at_most_ms: int | None = None  # a debounce puts its holder off no longer than this from its creation on
    reuse: frozenset[State] = frozenset()  # terminal states that a new generation may replace
    parents: tuple[Parent, ...] = ()
    overrides: bytes = b""  # per-enqueue policy, opaque to the backend
    headers: bytes = b""  # carried context, opaque to the backend
    creator: Ref | None = None
    request: int = 0  # random, below 2**63: a repeat with `reuse` is known by it; 0: none
    trail: int = 0  # entries of its own trail to keep, the newest; 0: it has none


class Acceptance(StrEnum):
    """What became of one enqueued job."""

    CREATED = "created"
    EXISTING = "existing"  # the id is known (or was merged into the job answered)
    SKIPPED = "skipped"  # the unique key is held
    REPLACED = "replaced"  # merged into the holder, which took the payload
    DEBOUNCED = "debounced"


@record(frozen=True, slots=True, kw_only=True)
class Enqueued:
    """The job that now stands for the request: the new one, the known one, or the key's holder."""

    ref: Ref
    acceptance: Acceptance
    state: State | None  # None: a throttled key's holder whose record is gone
    same_payload: bool = True

    @property
    def created(self) -> bool:
        """Whether this very request stored a job."""
        return self.acceptance is Acceptance.CREATED


@dataclass(frozen=True, slots=True, kw_only=True)
class Claimant:
    """Who claims. A repeat with the same `request_id` gets the same leases."""

    worker: str
    incarnation: str  # one life of one worker process
    request_id: str  # 128 random bits in hex: the nonce of every fence of the call
    takes_suspect: bool = False  # nothing runs in this process: it may run a suspect, alone


@record(frozen=True, slots=True, kw_only=True)
class Lease:
    """The right to run one job, with all that running and deciding need."""

    ref: Ref
    fence: Fence
    task: str
    payload: bytes
    attempts: int  # claims, this one included
    failures: int
    stalls: int
    max_stalls: int
    keep: Keep
    created_ms: int
    lease_until_ms: int
    incarnation: str
    suspect: bool = False
    cancel_requested: bool = False
    checkpoint: bytes | None = None
    overrides: bytes = b""
    headers: bytes = b""


class NothingClaimed(StrEnum):
    """Why a claim brought fewer jobs than it asked for."""

    EMPTY = "empty"
    PAUSED = "paused"
    LIMITED = "limited"


@record(frozen=True, slots=True, kw_only=True)
class Claimed:
    """Leases in the order in which they are to start."""

    leases: tuple[Lease, ...] = ()
    next_due_in_ms: int | None = None  # until a scheduled job is due; None: none is scheduled
    next_lapse_in_ms: int | None = None  # with a reason: until the first running lease can end
    reason: NothingClaimed | None = None
    suspect_waits: bool = False  # this process is the one that should run empty and take it


class Outcome(StrEnum):
    """How an attempt ended."""

    COMPLETED = "completed"
    RETRIED = "retried"
    FAILED = "failed"
    RELEASED = "released"
    SNOOZED = "snoozed"
    CANCELLED = "cancelled"
    STALLED = "stalled"


class Side(StrEnum):
    """Who settles: the lease's holder, or a sweep for a holder gone silent."""

    HOLDER = "holder"
    SWEEP = "sweep"


@record(frozen=True, slots=True, kw_only=True)
class Settlement:
    """The write that ends one attempt: every new value, decided by `protocol/decide.py`."""

    id: int  # random, below 2**63; kept through every repeat
    job_id: str
    generation: int
    fence: Fence
    outcome: Outcome
    state: State
    failures: int
    stalls: int
    side: Side = Side.HOLDER
    seen_cancel: bool = False
    delay_ms: int = 0  # until due, when the state is scheduled
    suspect: bool = False
    result: bytes | None = None
    error: bytes | None = None
    reason: str | None = None
    keep_ms: int | None = None  # terminal states only; 0 removes the record in the same step
    result_ms: int | None = None


class Settled(StrEnum):
    """What became of a settlement; compared in the order given at `Backend.settle`."""

    APPLIED = "applied"
    REPLAYED = "replayed"
    HELD = "held"
    CANCEL_REQUESTED = "cancel_requested"
    LOST = "lost"
    GONE = "gone"


class Renewal(StrEnum):
    """What became of a renewal."""

    HELD = "held"
    CANCEL_REQUESTED = "cancel_requested"
    LOST = "lost"


class NoteKind(StrEnum):
    """A fenced write that does not end the attempt."""

    PROGRESS = "progress"
    LOG = "log"
    CHECKPOINT = "checkpoint"
    OFFER = "offer"  # a child job, enqueued through the outbox


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """Progress, a log line, a checkpoint, or a child job; `value` is bytes, or the job for an offer."""

    job_id: str
    fence: Fence
    kind: NoteKind
    value: bytes = b""
    queue: str = ""  # offer: where the child goes
    child: NewJob | None = None
    number: int = 0  # grows from 1 within the attempt: a repeat is known by it; 0: none


class Noted(StrEnum):
    """What became of a note."""

    HELD = "held"
    LOST = "lost"


@dataclass(frozen=True, slots=True, kw_only=True)
class Advanced:
    """What one bounded step of the clock moved."""

    promoted: int = 0
    expired: int = 0
    next_due_in_ms: int | None = None


class FollowUpKind(StrEnum):
    """What must happen elsewhere."""

    ATTACH = "attach"  # tell `parent` that `child` depends on it
    RESOLVE = "resolve"  # tell `child` how `parent` ended
    OFFER = "offer"  # enqueue `job` into `child.queue`


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowUp:
    """One entry of a queue's outbox; carrying it out twice is harmless."""

    id: int
    kind: FollowUpKind
    child: Ref
    parent: Ref | None = None
    on_failure: OnParentFailure = OnParentFailure.FAIL
    outcome: State | None = None  # how the parent ended; None: it is unknown
    job: NewJob | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Attached:
    """What a parent answers when told of a dependant."""

    known: bool
    ended: State | None = None  # it has ended already: resolve the dependant with this


@dataclass(frozen=True, slots=True, kw_only=True)
class Wake:
    """What a listener heard; hints only."""

    queues: frozenset[str] = frozenset()  # jobs became waiting or scheduled, or the queue was resumed
    cancels: frozenset[Ref] = frozenset()  # cancellation of an active job was requested
    ended: frozenset[Ref] = frozenset()  # of those somebody has an interest in
    changed: frozenset[str] = frozenset()  # events were added to a queue that is followed
