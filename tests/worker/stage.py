"""A stage for worker tests: a backend, registered functions, workers that stand for processes."""

from __future__ import annotations

import asyncio
import inspect
import random
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

from leasemq.backend import Backend
from leasemq.backends.memory import MemoryBackend
from leasemq.clock import boot_ms, wall_ms
from leasemq.events import Event
from leasemq.protocol.insight import JobRecord
from leasemq.protocol.model import NewJob
from leasemq.protocol.signature import Signature
from leasemq.testing.faults import Wire, faulty
from leasemq.testing.virtual_loop import VirtualClock, VirtualLoop, pass_time
from leasemq.worker import Routine, Worker, WorkerSettings, in_loop, in_thread
from leasemq.worker.company import Company
from leasemq.worker.hooks import NO_HOOKS, Hooks

Handler = Callable[..., Any]
E = TypeVar("E")
QUEUE = "q"
PATIENCE_S = 30.0


@dataclass(slots=True)
class Process:
    """One imitated process: a worker, its wire, what it told. Owned by the stage."""

    worker: Worker
    wire: Wire
    told: list[Event] = field(default_factory=list)
    exit_code: int | None = None
    task: asyncio.Task[int] | None = None

    def events(self, kind: type[E]) -> list[E]:
        """What it told of one kind."""
        return [event for event in self.told if isinstance(event, kind)]

    async def stop(self) -> int:
        """Stop it once, and wait for its end."""
        self.worker.stop()
        assert self.task is not None
        self.exit_code = await self.task
        return self.exit_code

    async def die(self) -> None:
        """Imitate SIGKILL: nothing it does from now on reaches the backend."""
        self.wire.is_down = True
        assert self.task is not None
        self.task.cancel()
        await asyncio.wait({self.task})


class Stage:
    """Owned by one test. `is_virtual` tells whether time is."""

    def __init__(
        self, backend: Backend, clock: Callable[[], int], *, is_virtual: bool, seed: int = 7
    ) -> None:
        self.backend = backend
        self.clock = clock
        self.is_virtual = is_virtual
        self.store_clock: VirtualClock | None = None
        self.routines: dict[str, Routine] = {}
        self.processes: list[Process] = []
        self._seeds = count(seed)
        self._ids = count(1)

    def task(self, name: str, call: Handler, **policy: Any) -> Routine:
        """Register a function, as every process of the stage knows it."""
        takes_context = next(iter(inspect.signature(call).parameters), "") == "ctx"
        routine = Routine(
            name=name,
            call=call,
            is_async=inspect.iscoroutinefunction(call),
            takes_context=takes_context,
            **{"signature": Signature.of(call, task=name, skip_first=takes_context), **policy},
        )
        self.routines[name] = routine
        return routine

    async def enqueue(self, task: str, *args: Any, queue: str = QUEUE, **fields: Any) -> str:
        """Enqueue one job, and answer its id."""
        return (await self.enqueue_many(task, [args], queue=queue, **fields))[0]

    async def enqueue_many(
        self, task: str, calls: Sequence[tuple[Any, ...]], *, queue: str = QUEUE, **fields: Any
    ) -> list[str]:
        """Enqueue jobs in one call, and answer their ids."""
        routine = self.routines.get(task)
        jobs = [
            NewJob(
                **{
                    "id": f"{task}-{next(self._ids)}",
                    "task": task,
                    "payload": b"{}" if routine is None else routine.signature.encode_arguments(args, {}),
                    **fields,
                }
            )
            for args in calls
        ]
        stored = await self.backend.enqueue(queue, jobs)
        return [one.ref.id for one in stored]

    async def job(self, id_: str, queue: str = QUEUE) -> JobRecord:
        """Answer a record that must be there."""
        record = (await self.backend.get(queue, [id_]))[0]
        assert record is not None, id_
        return record

    def process(
        self,
        *,
        routines: dict[str, Routine] | None = None,
        company: Company | None = None,
        hooks: Hooks = NO_HOOKS,
        **settings: Any,
    ) -> Process:
        """Make a worker that stands for a process."""
        wire = Wire()
        told: list[Event] = []
        worker = Worker(
            faulty(self.backend, wire),
            self.routines if routines is None else routines,
            WorkerSettings(**{"queues": (QUEUE,), "name": f"w{len(self.processes)}", **settings}),
            observer=told.append,
            random=random.Random(next(self._seeds)),
            keeper=in_loop if self.is_virtual else in_thread,
            clock=self.clock,
            company=company or Company(),
            hooks=hooks,
        )
        process = Process(worker=worker, wire=wire, told=told)
        self.processes.append(process)
        return process

    def start(self, **settings: Any) -> Process:
        """Make one and start it."""
        process = self.process(**settings)
        process.task = self.spawn(process.worker.run())
        return process

    def spawn(self, run: Coroutine[Any, Any, int]) -> asyncio.Task[int]:
        """Run a worker beside the test."""
        return asyncio.get_running_loop().create_task(run)

    def step_store_clock(self, ms: int) -> None:
        """Jump the backend's clock; no time passes for anybody else."""
        assert self.store_clock is not None
        self.store_clock.step(ms)

    async def pass_time(self, seconds: float) -> None:
        """Let virtual time pass."""
        await pass_time(seconds)

    async def until(
        self, is_so: Callable[[], Coroutine[Any, Any, bool]], patience_s: float = PATIENCE_S
    ) -> None:
        """Wait for a condition; virtual time passes while it does not hold."""
        async with asyncio.timeout(patience_s):
            while not await is_so():
                await (pass_time(0.01) if self.is_virtual else asyncio.sleep(0.005))

    async def until_ended(self, *ids: str, queue: str = QUEUE, patience_s: float = PATIENCE_S) -> None:
        """Wait until these jobs have ended; without ids, until nothing is left to do."""

        async def has_ended() -> bool:
            if not ids:
                counts = await self.backend.counts(queue)
                return counts.scheduled + counts.waiting + counts.active + counts.blocked == 0
            records = await self.backend.get(queue, ids)
            return all(record is None or record.state.is_terminal for record in records)

        await self.until(has_ended, patience_s)

    async def close(self) -> None:
        """End every process that still runs."""
        running = [one.task for one in self.processes if one.task is not None and not one.task.done()]
        for task in running:
            task.cancel()
        if running:
            await asyncio.wait(running)


def virtual_backend(backend_name: str, folder: Path, clock: VirtualClock) -> Backend:
    """A backend in virtual time; SQLite without its threads."""
    if backend_name == "memory":
        return MemoryBackend(clock=clock.now_ms)
    from leasemq.backends.sqlite import SqliteBackend

    return SqliteBackend(folder / "jobs.db", clock=clock.now_ms, inline=True, sync="normal")


@asynccontextmanager
async def real_stage() -> AsyncIterator[Stage]:
    """A stage in real time, in memory, with the keeper in its thread."""
    async with _stage(MemoryBackend(clock=wall_ms), boot_ms, is_virtual=False) as stage:
        yield stage


@asynccontextmanager
async def real_stage_on(backend: Backend) -> AsyncIterator[Stage]:
    """A stage in real time on a backend with all its threads."""
    async with _stage(backend, boot_ms, is_virtual=False) as stage:
        yield stage


@asynccontextmanager
async def _stage(backend: Backend, clock: Callable[[], int], *, is_virtual: bool) -> AsyncIterator[Stage]:
    await backend.prepare()
    stage = Stage(backend, clock, is_virtual=is_virtual)
    try:
        yield stage
    finally:
        await stage.close()
        await backend.close()


Play = Callable[[Stage], Coroutine[Any, Any, None]]


def perform_in_real_time(play: Play) -> None:
    """Run a test's play in real time and in memory: with threads there is no other."""

    async def main() -> None:
        async with real_stage() as stage:
            await play(stage)

    asyncio.run(main())


def perform(play: Play, backend_name: str, folder: Path, *, seed: int | None = None) -> None:
    """Run a test's play in virtual time."""
    loop = VirtualLoop(seed)
    clock = VirtualClock(loop)
    backend = virtual_backend(backend_name, folder, clock)

    async def main() -> None:
        async with _stage(backend, clock.boot_ms, is_virtual=True) as stage:
            stage.store_clock = clock
            await play(stage)

    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.run(main())
