"""A user's own app under test: its jobs run by a real worker, on a store of the test's own, in virtual time.

The worker has an event loop and a thread of its own, as it has in production: functions run there, not in
the loop of the test. Between two calls of the test it stands still.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar, Unpack, cast, get_args

from leasemq.backend import Backend
from leasemq.client.connection import Source
from leasemq.client.loop_thread import loop_thread, refuse_inside_loop
from leasemq.clock import Clock, wall_ms
from leasemq.context import running_job
from leasemq.errors import InvalidSetting, Refused
from leasemq.events import Event, JobEnded
from leasemq.logs import log_event
from leasemq.protocol.insight import Filter, JobRecord
from leasemq.protocol.model import DEAD, Outcome, Ref
from leasemq.protocol.names import shown
from leasemq.protocol.times import seconds_to_ms
from leasemq.testing.course_of_time import CourseOfTime
from leasemq.testing.faults import Wire, faulty
from leasemq.testing.imitated_process import Crash, ImitatedProcess, Life, Log, PlannedCrash
from leasemq.testing.looking import Ran, SeenJob, counted, failure_of, seen
from leasemq.testing.own_thread import OwnThread, Work
from leasemq.testing.patient_loop import PatientLoop
from leasemq.testing.seen_by_client import inline
from leasemq.testing.virtual_loop import EPOCH_MS, VirtualClock, VirtualLoop
from leasemq.worker_setup import WorkerOptions

if TYPE_CHECKING:
    from leasemq.app import App
    from leasemq.task import Task
    from leasemq.worker import Worker

T = TypeVar("T")
Reply = Literal["enqueue", "claim", "complete", "renew", "note"]
OPERATIONS = {"enqueue": "enqueue", "claim": "claim", "complete": "settle", "renew": "renew", "note": "note"}
MAX_JOBS = 1_000
PAGE = 1_000


class Harness:
    """Puts an app on a store of the test's own: `async with Harness(app) as jobs`, or `with` in plain tests.

    What the app had open before is used again afterwards. Each method has a `_sync` twin for callers
    without an event loop. Owner: one test.

    Args:
        sqlite: keep the jobs in this file instead of in memory.
        inline: run each job before the enqueue answers, in the same way as `run_until_idle`.
        options: of the worker, see `WorkerOptions`; without `queues` it takes every queue that is in use.
    """

    def __init__(
        self,
        app: App,
        *,
        sqlite: str | Path | None = None,
        inline: bool = False,
        **options: Unpack[WorkerOptions],
    ) -> None:
        self._app = app
        self._open_store = _sqlite_store(sqlite) if sqlite is not None else _memory_store
        self._is_shared = sqlite is None
        self._is_inline = inline
        self._options = options
        self._stack: ExitStack | None = None

    # ---- running

    async def run_until_idle(self, *, raise_errors: bool = False, max_jobs: int = MAX_JOBS) -> Ran:
        """Let the worker run everything that is eligible now, and what that leads to.

        What is delayed or to be retried later stays: see `advance`.

        Args:
            raise_errors: raise the first error of an attempt, the exception itself.
            max_jobs: attempts after which it gives up.

        Raises: VirtualTimeStuck if there is no end to it; with `raise_errors` whatever the functions raise.
        """
        return await self._call(lambda: self._ran(self._course.until_idle(max_jobs), raise_errors))

    def run_until_idle_sync(self, *, raise_errors: bool = False, max_jobs: int = MAX_JOBS) -> Ran:
        """See `run_until_idle`."""
        return self._call_sync(lambda: self._ran(self._course.until_idle(max_jobs), raise_errors))

    async def advance(
        self,
        by: timedelta | float = 0,
        /,
        *,
        raise_errors: bool = False,
        max_jobs: int = MAX_JOBS,
        **units: float,
    ) -> Ran:
        """Let time pass, and let the worker run what becomes due, each at its own time.

        Args:
            by: seconds or timedelta.
            units: more of it, by timedelta's names: `advance(hours=3)`.
            raise_errors, max_jobs: see `run_until_idle`.
        """
        by_ms = _span_ms(by, units)
        return await self._call(lambda: self._ran(self._course.advance(by_ms, max_jobs), raise_errors))

    def advance_sync(
        self,
        by: timedelta | float = 0,
        /,
        *,
        raise_errors: bool = False,
        max_jobs: int = MAX_JOBS,
        **units: float,
    ) -> Ran:
        """See `advance`."""
        by_ms = _span_ms(by, units)
        return self._call_sync(lambda: self._ran(self._course.advance(by_ms, max_jobs), raise_errors))

    @property
    def now(self) -> datetime:
        """The store's time."""
        self._opened()
        return datetime.fromtimestamp(self._clock.now_ms() / 1_000, UTC)

    # ---- trouble

    def crash_worker(
        self, at: Crash | str = Crash.AFTER_FUNCTION, *, task: Task[..., Any] | str | None = None
    ) -> None:
        """Let the worker die, as by SIGKILL, at the next attempt that gets to this point.

        Another one takes over at once, but the job is its dead holder's until the lease ends:
        `advance(minutes=2)` is enough for leases of the default length.

        Args:
            at: `before_function`: claimed and nothing done; `after_function`: done and nothing recorded.
            task: only at an attempt of this task.
        """
        name = task if isinstance(task, str) or task is None else task.name
        self._opened().planned.append(PlannedCrash(at=_point(at), task=name))

    async def kill_worker(self) -> None:
        """Let the worker die now; functions that still run never record anything."""
        await self._call(self._opened().die)

    def kill_worker_sync(self) -> None:
        """See `kill_worker`."""
        self._call_sync(self._opened().die)

    def lose_reply(self, to: Reply, *, times: int = 1) -> None:
        """Let the next request of this kind be carried out and its answer be lost.

        Args:
            to: `enqueue` of anybody; `claim`, `complete` (the end of an attempt, whatever the outcome),
                `renew` and `note` (progress, log, checkpoint, children) of the worker.
            times: so many requests in a row.
        """
        process = self._opened()
        if to not in get_args(Reply):
            raise InvalidSetting(f"lose_reply({to!r}) is not one of {', '.join(get_args(Reply))}")
        wire = self._client_wire if to == "enqueue" else process.wire
        wire.lose_reply(OPERATIONS[to], times=times)

    # ---- looking

    async def enqueued(self, task: Task[..., Any] | str | None = None) -> list[SeenJob]:
        """Answer the jobs that are stored, in any state, oldest first in each queue; of one task or all."""
        return await self._call(lambda: self._found(Filter(task=_name_of(task))))

    def enqueued_sync(self, task: Task[..., Any] | str | None = None) -> list[SeenJob]:
        """See `enqueued`."""
        return self._call_sync(lambda: self._found(Filter(task=_name_of(task))))

    async def dead(self) -> list[SeenJob]:
        """Answer the dead letters: jobs that failed or expired."""
        return await self._call(lambda: self._found(Filter(states=DEAD)))

    def dead_sync(self) -> list[SeenJob]:
        """See `dead`."""
        return self._call_sync(lambda: self._found(Filter(states=DEAD)))

    # ---- opening and closing

    async def __aenter__(self) -> Self:
        with self._opening() as opening:
            await self._thread.run(self._start)
            self._stack = opening.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await self._app.close()
        finally:
            await asyncio.get_running_loop().run_in_executor(None, self._close)

    def __enter__(self) -> Self:
        refuse_inside_loop("`async with Harness(app)`")
        with self._opening() as opening:
            self._thread.run_sync(self._start)
            self._stack = opening.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close()

    def _opening(self) -> ExitStack:
        """Answer what is to be closed again, now or by whoever keeps it once everything has begun."""
        if self._stack is not None:
            raise Refused("this harness is in use; make another one for each test")
        _refuse_inside_job()
        self._app._maker(self._options)  # a bad option is refused before anything is opened
        with ExitStack() as stack:
            self._thread = OwnThread()
            stack.callback(self._thread.close)
            stack.enter_context(self._app._connections.coming_from(self._source))
            return stack.pop_all()

    async def _start(self) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, PatientLoop)
        self._loop = loop
        self._clock = VirtualClock(cast("VirtualLoop", loop))  # of which it needs time and jump
        self._clock.step(wall_ms() - EPOCH_MS)
        self._client_wire = Wire()
        self._store = self._new_store()
        async with AsyncExitStack() as failing:
            failing.push_async_callback(self._store.close)
            await self._store.prepare()
            failing.pop_all()
        self._process = ImitatedProcess(self._store, self._make, loop, self._clock, self._tell)
        self._course = CourseOfTime(
            self._process, self._store, self._queues, loop, self._clock, is_apart=not self._is_shared
        )

    async def _end(self) -> None:
        async with AsyncExitStack() as closing:
            closing.push_async_callback(self._store.close)
            closing.push_async_callback(self._app.close)
            await self._process.stop()

    def _close(self) -> None:
        stack, self._stack = self._stack, None
        if stack is None:
            return
        with stack:
            if loop_thread().is_running:
                stack.callback(self._app.call_sync, self._app.close)
            self._thread.run_sync(self._end)

    # ---- inside

    def _source(self) -> Source:
        return Source(open=self._view, is_shared=False)

    def _view(self) -> Backend:
        """Answer the backend for one event loop of the app's clients."""
        store = self._store if self._is_shared else self._new_store()
        if self._is_inline and asyncio.get_running_loop() is not self._loop:
            return inline(store, self._client_wire, self.run_until_idle)
        return faulty(store, self._client_wire)

    def _new_store(self) -> Backend:
        return self._open_store(self._clock.now_ms)

    def _make(self, backend: Backend, queues: Sequence[str]) -> Worker:
        return self._app._maker({**self._options, "queues": queues})(backend)

    async def _queues(self) -> Sequence[str]:
        """Answer the queues that the worker takes: those asked for, else every one that is in use."""
        chosen = self._options.get("queues") or self._app.settings.queues
        if chosen is not None:
            return tuple(chosen)
        of_tasks = {task.policy.queue for task in self._app.tasks.values()}
        return tuple(sorted(of_tasks.union(await self._store.queues()))) or ("default",)

    def _tell(self, event: Event) -> None:
        log_event(event)
        if "observer" in self._options:
            self._options["observer"](event)

    async def _ran(self, course: Coroutine[Any, Any, None], raise_errors: bool) -> Ran:
        process = self._process
        log = process.log = Log()
        await course
        refs = dict.fromkeys(one.ref for one in log.ended)
        jobs: dict[Ref, SeenJob] = {}
        for ref in refs:
            (record,) = await self._store.get(ref.queue, [ref.id])
            if record is not None:
                jobs[ref] = self._seen(record)
        if raise_errors:
            _raise_first(log.ended, process.errors, jobs)
        return Ran(
            outcomes=counted([one.outcome for one in log.ended]),
            jobs=list(jobs.values()),
            crashes=log.crashes,
        )

    async def _found(self, where: Filter) -> list[SeenJob]:
        found: list[JobRecord] = []
        for queue in await self._store.queues():
            newest_first: list[JobRecord] = []
            cursor: str | None = None
            while True:
                page = await self._store.find(queue, where, cursor, PAGE)
                newest_first += page.jobs
                if (cursor := page.cursor) is None:
                    break
            found += reversed(newest_first)
        return [self._seen(record) for record in found]

    def _seen(self, record: JobRecord) -> SeenJob:
        return seen(record, self._app.tasks)

    def _opened(self) -> ImitatedProcess:
        if self._stack is None:
            raise Refused("the harness is not open; use it inside `async with Harness(app) as jobs:`")
        return self._process

    async def _call(self, work: Work[T]) -> T:
        self._opened()
        _refuse_inside_job()
        return await self._thread.run(work)

    def _call_sync(self, work: Work[T]) -> T:
        refuse_inside_loop("the method without `_sync`")
        self._opened()
        _refuse_inside_job()
        return self._thread.run_sync(work)


def _refuse_inside_job() -> None:
    """Raise in a job's function: it would wait for the worker that waits for it."""
    if (job := running_job.get()) is not None:
        raise Refused(
            f"a harness is driven by a test, and this is job {shown(job.id)} running; "
            "enqueue here, and let the test run what was enqueued"
        )


def _sqlite_store(path: str | Path) -> Callable[[Clock], Backend]:
    from leasemq.backends.sqlite import SqliteBackend  # now, and not in an event loop

    return lambda clock: SqliteBackend(path, clock=clock, inline=True, sync="normal")


def _memory_store(clock: Clock) -> Backend:
    from leasemq.backends.memory import MemoryBackend

    return MemoryBackend(clock=clock)


def _raise_first(
    ended: Sequence[JobEnded], errors: Mapping[Life, Exception], jobs: Mapping[Ref, SeenJob]
) -> None:
    for one in ended:
        if one.outcome in (Outcome.RETRIED, Outcome.FAILED):
            if (error := errors.get((one.ref, one.fence))) is not None:
                raise error
            if one.ref in jobs:  # its record is kept
                raise failure_of(jobs[one.ref])


def _span_ms(by: timedelta | float, units: dict[str, float]) -> int:
    try:
        more_s = timedelta(**units).total_seconds()
    except TypeError as error:
        raise InvalidSetting(
            f"advance({', '.join(units)}=…): use timedelta's names, such as hours"
        ) from error
    return seconds_to_ms(by, "advance") + seconds_to_ms(more_s, "advance")


def _point(at: Crash | str) -> Crash:
    try:
        return Crash(at)
    except ValueError as error:
        raise InvalidSetting(f"crash_worker({at!r}) is not one of {', '.join(Crash)}") from error


def _name_of(task: Task[..., Any] | str | None) -> str | None:
    return task if isinstance(task, str) or task is None else task.name
