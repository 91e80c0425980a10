"""The worker process that a test imitates: a real worker in a patient loop, which can be killed at a point.

Between two calls of the test nothing of it runs, and its time stands still.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import partial
from typing import Any

from leasemq.backend import Backend
from leasemq.context import Ctx
from leasemq.errors import Verdict
from leasemq.events import (
    Event,
    HandlerAbandoned,
    HandlerStuck,
    JobEnded,
    JobStarted,
    LeaseWasLost,
    Observer,
    SettlementRefused,
    WorkerStarted,
)
from leasemq.protocol.model import Ref
from leasemq.testing.faults import Wire, faulty
from leasemq.testing.patient_loop import CountedThreads, PatientLoop
from leasemq.testing.virtual_loop import VirtualClock
from leasemq.worker import Worker, in_loop
from leasemq.worker.company import Company
from leasemq.worker.hooks import Hook, Hooks
from leasemq.worker.routine import Executor, Routine
from leasemq.worker.scopes import THREADS, WorkerScope

Call = Callable[[], Awaitable[Any]]
Life = tuple[Ref, int]  # one attempt: the job and its fence


class Crash(StrEnum):
    """Where a worker dies."""

    BEFORE_FUNCTION = "before_function"  # the job is claimed, and nothing was done
    AFTER_FUNCTION = "after_function"  # all was done, and nothing is recorded


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedCrash:
    """One death to come, at the first attempt that gets there."""

    at: Crash
    task: str | None = None  # None: whichever


@dataclass(slots=True)
class Log:
    """What happened in one call of the test. Owned by the process."""

    started: int = 0
    crashes: int = 0
    ended: list[JobEnded] = field(default_factory=list)


class ImitatedProcess:
    """Its worker is made at the first need, and anew after each death. Owner: the harness, in its loop."""

    def __init__(
        self,
        backend: Backend,
        make: Callable[[Backend, Sequence[str]], Worker],
        loop: PatientLoop,
        clock: VirtualClock,
        observer: Observer,
    ) -> None:
        self.wire = Wire()
        self.log = Log()
        self.planned: list[PlannedCrash] = []
        self.errors: dict[Life, Exception] = {}
        self.running: dict[Life, JobStarted] = {}
        self.incarnation: str | None = None  # of the worker that lives
        self._backend = backend
        self._make = make
        self._loop = loop
        self._clock = clock
        self._observer = observer
        self._random = random.Random(0)  # noqa: S311  a test's dice are no secret
        self._threads = CountedThreads(THREADS, loop)
        self._news = asyncio.Event()
        self._is_dying = False
        self._worker: Worker | None = None
        self._life: asyncio.Task[int] | None = None

    async def work_on(self, queues: Sequence[str]) -> None:
        """Be alive, and claim from these queues; what runs meanwhile is never interrupted for it."""
        if self._worker is not None and not self.running and tuple(self._worker.settings.queues) != queues:
            await self.stop()
        if self._life is None:
            self._worker = self._new_worker(queues)
            self._life = asyncio.create_task(self._worker.run())
            self._life.add_done_callback(lambda _: self._news.set())

    async def news(self, timeout_ms: int) -> None:
        """Return when something happened in the worker, or after this time. Raises: a bug of the worker."""
        try:
            async with asyncio.timeout(timeout_ms / 1_000):
                await self._news.wait()
        except TimeoutError:
            pass
        self._news.clear()
        if self._is_dying:
            await self.die()
        elif self._life is not None and self._life.done():
            life, self._life, self._worker = self._life, None, None
            life.result()

    async def die(self) -> None:
        """Die as by SIGKILL: nothing done from now on reaches the backend, and no time passes."""
        self.wire.is_down = True
        self.log.crashes += 1
        before_ms = self._clock.now_ms()
        if self._life is not None:
            self._life.cancel()
            await asyncio.wait({self._life})
        self._clock.step(before_ms - self._clock.now_ms())
        self._life, self._worker, self._is_dying = None, None, False
        self.running.clear()
        self.incarnation = None
        self.wire = Wire()

    async def stop(self) -> None:
        """End as by SIGTERM; a function that runs is interrupted, its job given back."""
        if self._worker is None or self._life is None:
            return
        self._worker.stop()
        if self.running:
            self._worker.stop()
        await asyncio.wait({self._life})
        life, self._life, self._worker = self._life, None, None
        self.running.clear()
        life.result()

    def _new_worker(self, queues: Sequence[str]) -> Worker:
        made = self._make(self._backend, queues)
        routines = {one.name: self._watched(one) for one in made._routines.values()}
        for routine in routines.values():
            if isinstance(routine.shared, WorkerScope):  # one for all of them
                routine.shared.threads = self._threads
        return Worker(
            faulty(self._backend, self.wire),
            routines,
            made.settings,
            observer=self._hear,
            random=self._random,
            keeper=in_loop,
            clock=self._clock.boot_ms,
            company=Company(),
            hooks=_while_alive(made._hooks, self.wire),
        )

    def _watched(self, routine: Routine) -> Routine:
        executor = None if routine.executor is Executor.PROCESS else routine.executor
        return replace(routine, executor=executor, around=partial(self._attempt, routine))

    async def _attempt(self, routine: Routine, ctx: Ctx, call: Call) -> Any:
        """Run one attempt, and die around it if that is planned."""
        inner = call if routine.is_async else partial(self._in_thread, call)
        await self._die_if_planned(Crash.BEFORE_FUNCTION, routine)
        try:
            return await (inner() if routine.around is None else routine.around(ctx, inner))
        except Exception as error:
            if not isinstance(error, Verdict):
                self.errors[Ref(queue=ctx.queue, id=ctx.job_id, generation=ctx.generation), ctx.fence] = error
            raise
        finally:
            await self._die_if_planned(Crash.AFTER_FUNCTION, routine)

    async def _in_thread(self, call: Call) -> Any:
        self._loop.busy += 1  # time stands still while the thread works
        try:
            return await call()
        finally:
            self._loop.busy -= 1

    async def _die_if_planned(self, point: Crash, routine: Routine) -> None:
        for plan in self.planned:
            if plan.at is point and plan.task in (None, routine.name) and not self._is_dying:
                self.planned.remove(plan)
                self.wire.is_down = True
                self._is_dying = True
                self._news.set()
                await asyncio.Event().wait()  # until the worker is cancelled

    def _hear(self, event: Event) -> None:
        match event:
            case WorkerStarted():
                self.incarnation = event.incarnation
            case JobStarted():
                self.log.started += 1
                self._loop.stay()
                self.running[event.ref, event.fence] = event
            case JobEnded():
                self.log.ended.append(event)
                self.running.pop((event.ref, event.fence), None)
            case LeaseWasLost() | SettlementRefused() | HandlerStuck() | HandlerAbandoned():
                self.running.pop((event.ref, event.fence), None)
            case _:
                pass
        self._news.set()
        self._observer(event)


def _while_alive(hooks: Hooks, wire: Wire) -> Hooks:
    """Answer the hooks of a process that may be killed: the app's at the stop are not run then.

    What its jobs shared is closed all the same, because the test's own process lives on.
    """

    def mortal(hook: Hook) -> Hook:
        return hook if hook.is_own else replace(hook, call=lambda: None if wire.is_down else hook.call())

    return replace(hooks, stop=tuple(mortal(hook) for hook in hooks.stop))
