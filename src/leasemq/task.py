"""A registered function, and the typed ways to enqueue it."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, Unpack, cast

from leasemq.additions import Additions
from leasemq.calls import by_queue, conflict, is_conflict
from leasemq.client.connection import Connections
from leasemq.client.following import tell_parents
from leasemq.client.ids import new_job_id, new_request_number
from leasemq.client.joining import check_outside, store_in
from leasemq.client.storing import Offer
from leasemq.context import Ctx, running_job
from leasemq.errors import InvalidSession, InvalidSetting, UnnamedTask
from leasemq.functions import check_importable
from leasemq.job import Job, Reading, check_may_wait, ref_of_plain
from leasemq.operations import Joined
from leasemq.policy import CallOptions, Plan, Policy, checked_plan
from leasemq.protocol.failure import ErrorRecord
from leasemq.protocol.model import Enqueued, NewJob
from leasemq.protocol.names import check_job_id, check_queue, shown
from leasemq.protocol.parameters import own_parameters
from leasemq.protocol.retry import Retry
from leasemq.protocol.signature import Signature
from leasemq.sessions import run_through
from leasemq.settings import Settings

if TYPE_CHECKING:
    from leasemq.worker.routine import Routine

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True, slots=True, kw_only=True)
class Call(Generic[R]):
    """One call that is ready to enqueue: checked arguments, and an id that every repeat keeps.

    `enqueue_many(calls)` may be repeated after an `IndeterminateWrite`; `ctx.enqueue` takes one, too.
    """

    queue: str
    job: NewJob
    strict: bool = False
    _task: Task[..., R] = field(repr=False, compare=False)

    def handle(self) -> Job[R]:
        """Answer a handle on the job that the call makes, or finds; nothing is read."""
        return self._task.job(self.job.id, queue=self.queue)


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What a task has from its app. Owner: the App."""

    connections: Connections
    settings: Callable[[], Settings]
    retry: Retry | None
    additions: Additions


class Task(Generic[P, R]):
    """One registered function with its policy. Owner: the App that made it; its fields never change.

    Calling it runs the function here and now; `enqueue` has a worker run it.
    """

    def __init__(
        self, function: Callable[..., Any], policy: Policy, around: Surroundings, *, takes_context: bool
    ) -> None:
        if policy.executor == "process":
            check_importable(function)
        functools.update_wrapper(cast("Callable[..., Any]", self), function)
        self.function = function
        self.policy = policy
        self.takes_context = takes_context
        self.is_async: bool = inspect.iscoroutinefunction(function)
        self._around = around

    @property
    def name(self) -> str:
        """What the task is called in the backend."""
        return self.policy.name

    @functools.cached_property
    def signature(self) -> Signature:
        """What the function takes and returns, read at first use. Raises: InvalidSetting."""
        return Signature.of(self.function, task=self.name, skip_first=self.takes_context)

    @functools.cached_property
    def _plainly(self) -> Enqueuing[P, R]:
        return self.options()

    def options(self, **options: Unpack[CallOptions]) -> Enqueuing[P, R]:
        """Answer the ways to enqueue with these options in place of the task's.

        Raises: InvalidSetting, InvalidName, InvalidDelay, NaiveDatetime.
        """
        return self._enqueuing(options)

    def _enqueuing(self, options: CallOptions) -> Enqueuing[P, R]:
        own = own_parameters(self.function, self.name, skip_first=self.takes_context)
        plan = checked_plan(self.policy, self._around.settings().keep, options, own)
        return Enqueuing(task=self, plan=plan, _given=options, _around=self._around)

    async def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> Job[R]:
        """Store one job. Concurrent calls go to the backend together.

        Raises: PayloadRejected, PayloadTooLarge, KeyFailed, UnnamedTask (nothing was written);
        BackendUnavailable (it was not stored); IndeterminateWrite (it may be: repeat with the id that
        the error carries).
        """
        return await self._plainly.enqueue(*args, **kwargs)

    async def enqueue_many(self, items: Iterable[tuple[Any, ...] | Call[R]]) -> list[Job[R]]:
        """Store many jobs, in order and in few round trips.

        Each item is a tuple of positional arguments, or a `call(...)`. All are checked before the first
        is sent, so bad arguments of one store nothing. What the backend answers is known job by job.

        Raises: as `enqueue`; IdConflict for a strict call, whose `jobs` are the handles of the others.
        """
        return await self._plainly.enqueue_many(items)

    async def enqueue_and_wait(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Store one job, wait for its end and answer its value.

        It waits for ever, unless `options(wait_timeout=...)` says for how long. Refused inside a running
        job, with nothing stored.

        Raises: as `enqueue` and `Job.result`; WaitTimeout, whose `job` is the handle of the job that goes on.
        """
        return await self._plainly.enqueue_and_wait(*args, **kwargs)

    def enqueue_and_wait_sync(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """See `enqueue_and_wait`; for callers without an event loop. Raises: SyncInsideLoop."""
        return self._plainly.enqueue_and_wait_sync(*args, **kwargs)

    def call(self, *args: P.args, **kwargs: P.kwargs) -> Call[R]:
        """Answer a checked call with an id of its own, for `enqueue_many`."""
        return self._plainly.call(*args, **kwargs)

    def enqueue_sync(self, *args: P.args, **kwargs: P.kwargs) -> Job[R]:
        """See `enqueue`; for callers without an event loop, from any thread. Raises: SyncInsideLoop."""
        return self._plainly.enqueue_sync(*args, **kwargs)

    def enqueue_many_sync(self, items: Iterable[tuple[Any, ...] | Call[R]]) -> list[Job[R]]:
        """See `enqueue_many`; for callers without an event loop. Raises: SyncInsideLoop."""
        return self._plainly.enqueue_many_sync(items)

    def job(self, id_: str, *, queue: str | None = None, generation: int | None = None) -> Job[R]:
        """Answer a handle on a job of this task; nothing is read. Raises: InvalidJobId, InvalidQueueName."""
        return Job(
            queue=self.policy.queue if queue is None else check_queue(queue),
            id=check_job_id(id_),
            generation=generation,
            _connections=self._around.connections,
            _reading=self._reading,
        )

    def handle(self, plain: Mapping[str, object]) -> Job[R]:
        """Answer the handle that `job.to_plain()` gave, in any process. Raises: Refused."""
        queue, id_, generation = ref_of_plain(plain)
        return self.job(id_, queue=queue, generation=generation)

    def routine(self) -> Routine:
        """Answer what a worker needs to run the task. Raises: UnnamedTask, InvalidSetting."""
        from leasemq.worker.importable import lesson
        from leasemq.worker.routine import Executor, Routine

        self.check_named()
        settings = self._around.settings()
        executor = None if self.policy.executor == "auto" else Executor(self.policy.executor)
        routine = Routine(
            name=self.name,
            call=self.function,
            is_async=self.is_async,
            takes_context=self.takes_context,
            signature=self.signature,
            retry=self.policy.retry if self.policy.has_retry else self._around.retry,
            raises=self.policy.raises,
            timeout_ms=self.policy.timeout_ms,
            lease_ms=self.policy.lease_ms,
            result_limit_bytes=settings.result_limit,
            aliases=self.policy.aliases,
            around=self._around.additions.around(),
            carried=self._around.additions.carried,
            dependencies=self._around.additions.dependencies,
            executor=executor,
            memory_limit_bytes=self.policy.memory_limit_bytes,
        )
        if executor is Executor.PROCESS:
            lesson(routine)  # what no child could import is refused before anything starts
        return routine

    def check_named(self) -> None:
        """Raise UnnamedTask if no other process could know the task by its name."""
        if self.name.startswith("__main__."):
            raise UnnamedTask(
                f"task {shown(self.name)} is defined in the script that runs, which another process knows by "
                f"another name; give it one: @app.task(name={self.function.__name__!r})"
            )

    @functools.cached_property
    def _reading(self) -> Reading[R]:
        """How what its jobs stored is read."""
        return Reading(value=self._value, error=self._error)

    def _value(self, _: str, result: bytes, job: str) -> R:
        return cast("R", self.signature.decode_result(result, job=job))

    def _error(self, _: str, stored: ErrorRecord) -> Exception | None:
        return self.policy.raises.rebuilt(stored)

    def _called(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if self.takes_context and not (args and isinstance(args[0], Ctx)):
            raise TypeError(
                f"{self.name} takes a Ctx, which exists only while a job runs; "
                "to call it with one of your own, give it first"
            )
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<task {shown(self.name)}>"


class AsyncTask(Task[P, R]):
    """A task whose function is a coroutine function."""

    async def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run the function here and now."""
        return cast("R", await self._called(args, kwargs))


class PlainTask(Task[P, R]):
    """A task whose function is an ordinary one; workers run it in a thread, or in a child process."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run the function here and now."""
        return cast("R", self._called(args, kwargs))


@dataclass(frozen=True, slots=True, kw_only=True)
class Enqueuing(Generic[P, R]):
    """The ways to enqueue a task under one set of options."""

    task: Task[P, R]
    plan: Plan
    _given: CallOptions = field(repr=False)
    _around: Surroundings = field(repr=False)

    def options(self, **options: Unpack[CallOptions]) -> Enqueuing[P, R]:
        """Answer the same with more options, or others in place of those given."""
        return self.task._enqueuing(cast("CallOptions", {**self._given, **options}))

    async def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> Job[R]:
        """See `Task.enqueue`. With `strict=True` also raises: IdConflict; with `session=` InvalidSession."""
        call = self._call(args, kwargs)
        if self.plan.session is not None:
            return self._all_answered([call], await self._stored_in(await self._joined(), [call]))[0]
        connection = await self._around.connections.here()
        check_outside(connection.capabilities.store_id)
        offer = Offer(job=call.job, own_id=self.plan.naming.is_fresh)
        enqueued = await connection.intake.one(call.queue, offer)
        await tell_parents(connection.backend, call.queue, [call.job])
        if call.strict and is_conflict(enqueued):
            raise conflict(call.queue, call.job.id)
        return self._answered(enqueued)

    async def enqueue_and_wait(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """See `Task.enqueue_and_wait`."""
        if self.plan.session is not None:
            raise InvalidSetting(
                "enqueue_and_wait waits for a job that session= holds back; enqueue it, and commit"
            )
        check_may_wait(f"a job of task {shown(self.task.name)}")
        job = await self.enqueue(*args, **kwargs)
        wait_ms = self.plan.wait_ms
        return await job.result(None if wait_ms is None else timedelta(milliseconds=wait_ms))

    async def enqueue_many(self, items: Iterable[tuple[Any, ...] | Call[R]]) -> list[Job[R]]:
        """See `Task.enqueue_many`. With `strict=True` also raises: IdConflict, the other jobs stored."""
        calls = self._calls(items)
        if self.plan.session is not None:
            return self._all_answered(calls, await self._stored_in(await self._joined(), calls))
        connection = await self._around.connections.here()
        check_outside(connection.capabilities.store_id)
        enqueued: dict[int, Enqueued] = {}
        for queue, places in by_queue([call.queue for call in calls]).items():
            offers = [Offer(job=calls[place].job, own_id=False) for place in places]
            stored = await connection.intake.many(queue, offers)
            enqueued.update(zip(places, stored, strict=True))
            await tell_parents(connection.backend, queue, [offer.job for offer in offers])
        return self._all_answered(calls, [enqueued[place] for place in range(len(calls))])

    def call(self, *args: P.args, **kwargs: P.kwargs) -> Call[R]:
        """See `Task.call`."""
        if self.plan.session is not None:
            raise InvalidSetting("a call has no session; say task.options(session=...).enqueue_many([call])")
        return self._call(args, kwargs)

    def enqueue_sync(self, *args: P.args, **kwargs: P.kwargs) -> Job[R]:
        """See `Task.enqueue_sync`."""
        if self.plan.session is not None:
            call = self._call(args, kwargs)
            return self._all_answered([call], self._stored_in_sync([call]))[0]
        return self._around.connections.call(lambda: self.enqueue(*args, **kwargs), "task.enqueue(...)")

    def enqueue_and_wait_sync(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """See `Task.enqueue_and_wait_sync`."""
        return self._around.connections.call(
            lambda: self.enqueue_and_wait(*args, **kwargs), "task.enqueue_and_wait(...)"
        )

    def enqueue_many_sync(self, items: Iterable[tuple[Any, ...] | Call[R]]) -> list[Job[R]]:
        """See `Task.enqueue_many_sync`."""
        if self.plan.session is not None:
            calls = self._calls(items)
            return self._all_answered(calls, self._stored_in_sync(calls))
        return self._around.connections.call(lambda: self.enqueue_many(items), "task.enqueue_many(...)")

    def _call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call[R]:
        task = self.task
        task.check_named()
        payload = task.signature.encode_arguments(args, kwargs, self._around.settings().payload_limit)
        id_, unique = self.plan.naming.names(task.name, task.signature, payload)
        job = self.plan.job(
            id_ or new_job_id(),
            task.name,
            payload,
            unique=unique,
            headers=self._around.additions.carried.collect(),
            creator=running_job.get(),
            request=new_request_number() if self.plan.reuse else 0,
        )
        return Call(queue=self.plan.queue, job=job, strict=self.plan.strict, _task=task)

    def _calls(self, items: Iterable[tuple[Any, ...] | Call[R]]) -> list[Call[R]]:
        """Answer all calls, checked, before the first is sent."""
        calls: list[Call[R]] = []
        for item in items:
            if isinstance(item, Call):
                calls.append(item)
            elif isinstance(item, tuple | list):
                calls.append(self._call(tuple(item), {}))
            else:
                raise InvalidSetting(
                    f"enqueue_many takes tuples of arguments or task.call(...), not {type(item).__name__}; "
                    "for one argument say (value,)"
                )
        if isinstance(id_ := self.plan.naming.id, str) and len(calls) > 1:
            raise InvalidSetting(
                f"id={id_!r} names one job, not {len(calls)}; "
                "give each its own: task.options(id=...).call(...)"
            )
        return calls

    def _all_answered(self, calls: Sequence[Call[R]], enqueued: Sequence[Enqueued]) -> list[Job[R]]:
        """Answer the handles of all. Raises: IdConflict for a strict call, with the others' handles."""
        pairs = list(zip(calls, enqueued, strict=True))
        clashes = [place for place, (call, one) in enumerate(pairs) if call.strict and is_conflict(one)]
        jobs = [self._answered(one) for one in enqueued]
        if not clashes:
            return jobs
        first = calls[clashes[0]]
        others = tuple(None if place in clashes else job for place, job in enumerate(jobs))
        raise conflict(first.queue, first.job.id, others if len(calls) > 1 else ())

    async def _joined(self) -> Joined:
        """Answer what stores jobs in the caller's transaction. Raises: Unsupported, InvalidSession."""
        return (await self._around.connections.here()).backend.joined(self.plan.session)

    async def _stored_in(self, joined: Joined, calls: Sequence[Call[R]]) -> list[Enqueued]:
        return await store_in(joined, [(call.queue, call.job) for call in calls])

    def _stored_in_sync(self, calls: Sequence[Call[R]]) -> list[Enqueued]:
        """Store them in this thread, where the session is used. Raises: SyncInsideLoop."""
        joined = self._around.connections.call(self._joined, "task.enqueue(...)")
        if joined.is_async:
            raise InvalidSession("the session is an asynchronous one; await task.enqueue(...) with it")
        return run_through(self._stored_in(joined, calls))

    def _answered(self, enqueued: Enqueued) -> Job[R]:
        ref = enqueued.ref
        return Job(
            queue=ref.queue,
            id=ref.id,
            generation=ref.generation,
            acceptance=enqueued.acceptance,
            _connections=self._around.connections,
            _reading=self.task._reading,
        )
