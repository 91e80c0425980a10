"""How far an imitated process is driven: until nothing is eligible, or until a time has passed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from leasemq.backend import Backend
from leasemq.errors import VirtualTimeStuck
from leasemq.maintenance import follow_up
from leasemq.protocol.insight import Filter
from leasemq.protocol.model import State
from leasemq.protocol.names import shown
from leasemq.testing.imitated_process import ImitatedProcess
from leasemq.testing.patient_loop import PatientLoop
from leasemq.testing.virtual_loop import VirtualClock

BATCH = 1_000
LOOK_EVERY_MS = 1_000
LOOK_WHILE_RUNNING_MS = 60_000  # for a sign that there is no end; what happens is told
LONGEST_RUN_MS = 3_600_000  # of virtual time, for functions that never end


class CourseOfTime:
    """Drives one process. Owner: the harness, in its loop.

    Args:
        is_apart: the test's own code uses other objects on the same store, whose writes the worker would
            notice only at its next look.
    """

    def __init__(
        self,
        process: ImitatedProcess,
        backend: Backend,
        queues: Callable[[], Awaitable[Sequence[str]]],
        loop: PatientLoop,
        clock: VirtualClock,
        *,
        is_apart: bool,
    ) -> None:
        self._process = process
        self._backend = backend
        self._queues = queues
        self._loop = loop
        self._clock = clock
        self._is_apart = is_apart

    async def until_idle(self, max_jobs: int, until_ms: int | None = None) -> None:
        """Let the worker run what is eligible, at most until a time.

        Raises: VirtualTimeStuck if there is no end to it.
        """
        began_ms = self._clock.now_ms()
        while True:
            await self._process.work_on(await self._queues())
            self._check_count(max_jobs)
            if until_ms is None:
                self._check_end(began_ms)
            if not await self._is_eligible():
                return
            look_ms = LOOK_WHILE_RUNNING_MS if self._process.running else LOOK_EVERY_MS
            left_ms = look_ms if until_ms is None else until_ms - self._clock.now_ms()
            if left_ms <= 0:
                return
            await self._process.news(min(left_ms, look_ms))

    async def advance(self, by_ms: int, max_jobs: int) -> None:
        """Let this time pass; what becomes due runs at its own time, in order.

        Raises: VirtualTimeStuck if it is too much.
        """
        end_ms = self._clock.now_ms() + by_ms
        await self.until_idle(max_jobs, end_ms)
        while (now_ms := self._clock.now_ms()) < end_ms:
            next_ms = await self._next_ms()
            to_ms = end_ms if next_ms is None else min(next_ms, end_ms)
            await self._loop.leap(max(1, to_ms - now_ms) / 1_000)
            await self.until_idle(max_jobs, max(end_ms, self._clock.now_ms() + 1))

    def _check_count(self, max_jobs: int) -> None:
        if self._process.log.started > max_jobs:
            names = sorted({one.task for one in self._process.log.ended})
            raise VirtualTimeStuck(
                f"more than max_jobs={max_jobs:,} attempts started in one call, of {', '.join(names)}; "
                "does a job enqueue itself, or retry without a delay? Raise max_jobs if they are meant"
            )

    def _check_end(self, began_ms: int) -> None:
        running = self._process.running.values()
        if running and self._clock.now_ms() - began_ms > LONGEST_RUN_MS:
            jobs = ", ".join(f"{shown(one.ref.id)} of {one.task}" for one in running)
            raise VirtualTimeStuck(
                f"after {LONGEST_RUN_MS // 60_000} minutes of virtual time these jobs still run: {jobs}; "
                "they wait for what the test does not do: advance(...) lets a given time pass with them"
            )

    async def _is_eligible(self) -> bool:
        """Whether anything runs or could start now. Follow-ups of what ended are carried out."""
        if not self._process.running:
            await self._loop.leap()  # a claim that is under way is neither waiting nor running
        found = bool(self._process.running)
        for queue in await self._queues():
            while await follow_up(self._backend, queue, BATCH) >= BATCH:
                pass
            while (await self._backend.advance(queue, BATCH)).promoted >= BATCH:
                pass
            counts = await self._backend.counts(queue)
            if counts.waiting > 0 and not counts.paused:
                found = True
                if self._is_apart:
                    await self._backend.resume(queue)  # changes nothing, and wakes whoever listens
            found = found or (counts.active > 0 and await self._is_anybodys(queue))
        return found

    async def _is_anybodys(self, queue: str) -> bool:
        """Whether a lease has ended, or is the worker's without its knowing: it will release that one."""
        if await self._backend.expired(queue, 1):
            return True
        incarnation = self._process.incarnation
        return incarnation is not None and bool(await self._backend.claimed_by(queue, incarnation))

    async def _next_ms(self) -> int | None:
        """Answer when a job is due next, or a dead worker's lease ends; None: never."""
        times: list[int] = []
        now_ms = self._clock.now_ms()
        for queue in await self._queues():
            due_in_ms = (await self._backend.advance(queue, BATCH)).next_due_in_ms
            if due_in_ms is not None:
                times.append(now_ms + due_in_ms)
            active = await self._backend.find(queue, Filter(states=frozenset({State.ACTIVE})), None, BATCH)
            times += [one.lease_until_ms for one in active.jobs if one.lease_until_ms is not None]
        return min(times, default=None)
