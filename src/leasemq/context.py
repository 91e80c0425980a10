"""What a running job sees: its identity, its fence, and the fenced writes that do not end it."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, overload

from leasemq.errors import InvalidSetting, JobCancelled, Unsupported
from leasemq.notes import encode_log_line, encode_progress
from leasemq.protocol.envelope import decode_plain, encode_plain
from leasemq.protocol.model import Lease, NewJob, NoteKind, Ref
from leasemq.protocol.names import shown
from leasemq.protocol.record import record

T = TypeVar("T")
H_co = TypeVar("H_co", covariant=True)

if TYPE_CHECKING:
    MadeForWorker = Callable[[], T] | Callable[["WorkerCtx"], T]
    Made = MadeForWorker[T] | Callable[["Ctx"], T]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

running_job: ContextVar[Ref | None] = ContextVar("leasemq_running_job", default=None)
"""The job whose function runs here; None outside of one. Set in the function's task and its thread."""


@record(frozen=True, slots=True, kw_only=True)
class RunningAttempt:
    """What a line in the log says about the attempt that it was written in."""

    ref: Ref
    task: str
    attempt: int
    fence: int


running_attempt: ContextVar[RunningAttempt | None] = ContextVar("leasemq_running_attempt", default=None)
"""The same as `running_job`, told in full; for logs."""


@dataclass(slots=True)
class OpenBlock:
    """A transaction that a function has open, and the store that it keeps others from writing to."""

    is_open: bool = True
    store_id: str | None = None


open_block: ContextVar[OpenBlock | None] = ContextVar("leasemq_open_block", default=None)
"""The transaction that the function last opened here; it may have ended."""


class Desk(Protocol):
    """What a context needs of the attempt behind it."""

    @property
    def is_told_to_stop(self) -> bool:
        """Whether the function should end now."""

    async def write(
        self, kind: NoteKind, value: bytes, *, queue: str = "", child: NewJob | None = None
    ) -> None:
        """Record something under the attempt's fence. Raises: LeaseLost."""

    def write_from_thread(
        self, kind: NoteKind, value: bytes, *, queue: str = "", child: NewJob | None = None
    ) -> None:
        """Like `write`, from the function's own thread."""

    def transaction(self, session: object) -> AbstractAsyncContextManager[Any]:
        """See `Ctx.transaction`."""

    def transaction_in_thread(self, session: object) -> AbstractContextManager[Any]:
        """See `Ctx.transaction_sync`."""

    def complete(self, value: object) -> None:
        """See `Ctx.complete`."""


class Child(Protocol[H_co]):
    """A call that is ready to enqueue: what `task.call(...)` answers."""

    @property
    def queue(self) -> str:
        """Where the job goes."""

    @property
    def job(self) -> NewJob:
        """What is to be stored."""

    @property
    def strict(self) -> bool:
        """Whether its caller wants to hear of a known id with other arguments."""

    def handle(self) -> H_co:
        """Answer a handle on the job that it makes."""


class Provider(Protocol):
    """Who makes what `use` asks for, and closes it in time."""

    async def use(self, dependency: Callable[..., Any], context: Ctx | WorkerCtx) -> Any:
        """Answer what the dependency makes; made once within its scope."""

    def use_sync(self, dependency: Callable[..., Any], context: Ctx) -> Any:
        """Like `use`, in the thread of a function that runs in one."""


class WorkerCtx:
    """What a dependency of the worker's scope may take first, to use others of that scope."""

    __slots__ = ("_provider",)

    def __init__(self, provider: Provider) -> None:
        self._provider = provider

    @overload
    async def use(self, dependency: MadeForWorker[AsyncIterator[T]]) -> T: ...
    @overload
    async def use(self, dependency: MadeForWorker[Iterator[T]]) -> T: ...
    @overload
    async def use(self, dependency: MadeForWorker[Coroutine[Any, Any, T]]) -> T: ...
    @overload
    async def use(self, dependency: MadeForWorker[T]) -> T: ...
    async def use(self, dependency: Callable[..., Any]) -> Any:
        """Answer what another dependency of the worker makes. Raises: InvalidSetting, what it raises."""
        return await self._provider.use(dependency, self)


class Ctx:
    """The first argument of a function that asks for it. Owner: the attempt; it means nothing after it."""

    __slots__ = ("_desk", "_lease", "_provider")

    def __init__(self, lease: Lease, desk: Desk, provider: Provider | None = None) -> None:
        self._lease = lease
        self._desk = desk
        self._provider = provider

    def __repr__(self) -> str:
        return f"<Ctx {shown(self.queue)}/{shown(self.job_id)} attempt {self.attempt} fence {self.fence}>"

    @property
    def ref(self) -> Ref:
        """Queue, id and generation: what a handle names."""
        return self._lease.ref

    @property
    def job_id(self) -> str:
        """The job's id."""
        return self._lease.ref.id

    @property
    def queue(self) -> str:
        """The queue that it came from."""
        return self._lease.ref.queue

    @property
    def generation(self) -> int:
        """Which life of the id this is; 1 is the first."""
        return self._lease.ref.generation

    @property
    def task(self) -> str:
        """The task's name as it was enqueued."""
        return self._lease.task

    @property
    def attempt(self) -> int:
        """Which claim of the job this is; 1 is the first."""
        return self._lease.attempts

    @property
    def failures(self) -> int:
        """How often it has failed before."""
        return self._lease.failures

    @property
    def stalls(self) -> int:
        """How often a lease on it has expired before."""
        return self._lease.stalls

    @property
    def fence(self) -> int:
        """The lease's number, larger at every claim: hand it on, and others can refuse a stale attempt."""
        return self._lease.fence.number

    @property
    def created_at(self) -> datetime:
        """When the job was enqueued, by the backend's clock, in UTC."""
        return _EPOCH + timedelta(milliseconds=self._lease.created_ms)

    def idempotency_key(self, step: str = "") -> str:
        """Answer a key that is the same on every attempt of this job, and differs for each step."""
        parts = (self.queue, self.job_id, str(self.generation), step)
        told = b"".join(len(part).to_bytes(8, "big") + part for part in map(str.encode, parts))
        return hashlib.blake2b(told, digest_size=16).hexdigest()

    @property
    def cancelled(self) -> bool:
        """Whether it should stop: cancelled, out of time, or its lease is lost. Read from any thread."""
        return self._desk.is_told_to_stop

    def check_cancelled(self) -> None:
        """Raise JobCancelled if the function should stop; for loops in functions that block."""
        if self._desk.is_told_to_stop:
            raise JobCancelled(f"job {shown(self.job_id)} was told to stop at attempt {self.attempt}")

    @property
    def last_checkpoint(self) -> Any:
        """What an earlier attempt left with `checkpoint`; None if there was nothing."""
        stored = self._lease.checkpoint
        return None if stored is None else decode_plain(stored, what="checkpoint", job=self.job_id)

    async def progress(
        self, current: float, total: float | None = None, message: str | None = None, *, data: Any = None
    ) -> None:
        """Record how far the job is; who follows its events hears of it, and `job.progress()` reads it.

        Args:
            data: whatever else there is to say: plain data. All together takes at most 64 KiB.

        Raises: LeaseLost, PayloadRejected, PayloadTooLarge.
        """
        await self._desk.write(NoteKind.PROGRESS, self._progress(current, total, message, data))

    async def log(self, message: str) -> None:
        """Add a line of at most 16 KiB to the job's own log; the newest 100 are kept.

        Raises: LeaseLost, PayloadRejected, PayloadTooLarge.
        """
        await self._desk.write(NoteKind.LOG, encode_log_line(message))

    async def checkpoint(self, value: Any) -> None:
        """Leave plain data of at most 1 MiB for the next attempt, in place of what was left before.

        Raises: LeaseLost, PayloadRejected, PayloadTooLarge.
        """
        await self._desk.write(NoteKind.CHECKPOINT, encode_plain(value, what="checkpoint"))

    async def enqueue(self, call: Child[H_co]) -> H_co:
        """Enqueue a child job, `task.call(...)`, if this attempt still owns its own; answers its handle.

        The wish is stored in one step with the proof of ownership, and carried out right after, so the
        child may take a moment to show, whatever becomes of this worker. Its record names this job as its
        creator. A known id stands for the job that has it, as in any enqueue.

        Raises: LeaseLost; InvalidSetting for a strict call, as nobody is left to hear of a conflict.
        """
        await self._desk.write(NoteKind.OFFER, b"", queue=call.queue, child=_checked_child(call))
        return call.handle()

    @overload
    async def use(self, dependency: Made[AsyncIterator[T]]) -> T: ...
    @overload
    async def use(self, dependency: Made[Iterator[T]]) -> T: ...
    @overload
    async def use(self, dependency: Made[Coroutine[Any, Any, T]]) -> T: ...
    @overload
    async def use(self, dependency: Made[T]) -> T: ...
    async def use(self, dependency: Callable[..., Any]) -> Any:
        """Answer what a dependency makes: a value, or what a generator yields; once in its scope.

        What follows the yield runs after the function, before its end is recorded: an error there fails
        the attempt. It sees what the function raised, and cannot undo it.

        Raises: whatever the dependency raises; InvalidSetting for what is none, or uses itself.
        """
        return await self._makes().use(dependency, self)

    @overload
    def use_sync(self, dependency: Made[Iterator[T]]) -> T: ...
    @overload
    def use_sync(self, dependency: Made[T]) -> T: ...
    def use_sync(self, dependency: Callable[..., Any]) -> Any:
        """Like `use`, in a function that runs in a thread; for dependencies that are not async.

        Raises: as `use`; SyncInsideLoop.
        """
        return self._makes().use_sync(dependency, self)

    def _makes(self) -> Provider:
        if self._provider is None:
            raise Unsupported(f"job {shown(self.job_id)} runs where no dependency can be made")
        return self._provider

    @overload
    def transaction(self) -> AbstractAsyncContextManager[Any]: ...
    @overload
    def transaction(self, session: T) -> AbstractAsyncContextManager[T]: ...
    def transaction(self, session: object = None) -> AbstractAsyncContextManager[Any]:
        """Open a transaction whose commit completes the job: `async with ctx.transaction() as connection:`.

        The fence is checked first, and the job stays locked. What the function writes on the connection and
        the end of its job are committed together at the block's end; an error in the block undoes both. The
        job's value is what `complete` was given, else None. The block must end within the job's lease.

        Args:
            session: one of the function's own, on the backend's database: psycopg's connection, or
                SQLAlchemy's connection or session. The block commits it or rolls it back.

        Raises: LeaseLost, JobCancelled (rolled back); Unsupported where the backend has no transactions.
        """
        return self._desk.transaction(session)

    @overload
    def transaction_sync(self) -> AbstractContextManager[Any]: ...
    @overload
    def transaction_sync(self, session: T) -> AbstractContextManager[T]: ...
    def transaction_sync(self, session: object = None) -> AbstractContextManager[Any]:
        """Like `transaction`, for a function in a thread. Raises: as `transaction`; SyncInsideLoop."""
        return self._desk.transaction_in_thread(session)

    def complete(self, value: Any) -> None:
        """Say, inside of a transaction, with which value it completes the job.

        Raises: IllegalMove outside of one; ResultNotSerializable, ResultTooLarge.
        """
        self._desk.complete(value)

    def enqueue_sync(self, call: Child[H_co]) -> H_co:
        """Like `enqueue`, for a function in a thread. Raises: as `enqueue`; SyncInsideLoop."""
        self._desk.write_from_thread(NoteKind.OFFER, b"", queue=call.queue, child=_checked_child(call))
        return call.handle()

    def progress_sync(
        self, current: float, total: float | None = None, message: str | None = None, *, data: Any = None
    ) -> None:
        """Like `progress`, for a function in a thread. Raises: as `progress`; SyncInsideLoop."""
        self._desk.write_from_thread(NoteKind.PROGRESS, self._progress(current, total, message, data))

    def log_sync(self, message: str) -> None:
        """Like `log`, for a function in a thread. Raises: as `log`; SyncInsideLoop."""
        self._desk.write_from_thread(NoteKind.LOG, encode_log_line(message))

    def checkpoint_sync(self, value: Any) -> None:
        """Like `checkpoint`, for a function in a thread. Raises: LeaseLost, SyncInsideLoop."""
        self._desk.write_from_thread(NoteKind.CHECKPOINT, encode_plain(value, what="checkpoint"))

    def _progress(self, current: float, total: float | None, message: str | None, data: Any) -> bytes:
        return encode_progress(current, total, message, data, self.attempt)


def _checked_child(call: Child[object]) -> NewJob:
    if call.strict:
        raise InvalidSetting(
            f"job {shown(call.job.id)} is enqueued with strict=True from inside another job, whose function "
            "would not hear of a conflict; leave strict=True out"
        )
    return call.job


def is_annotated(function: Callable[..., Any], parameter: inspect.Parameter, kind: type) -> bool:
    """Whether a parameter of the function is annotated as this very class."""
    annotation = parameter.annotation
    if not isinstance(annotation, str):
        return annotation is kind
    found: Any = getattr(function, "__globals__", {}).get(annotation.partition(".")[0])
    for part in annotation.split(".")[1:]:
        found = getattr(found, part, None)
    # A name that is imported for type checkers only is not there at run time: its text must do.
    return found is kind or (found is None and annotation.rpartition(".")[2] == kind.__name__)
