"""What waiting costs the store: one subscription for all who wait in a process, and few statements."""

from __future__ import annotations

import asyncio
import random
import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from leasemq import App, Job
from leasemq.backends.memory import MemoryBackend
from leasemq.backends.sqlite import SqliteBackend
from leasemq.client import lookout
from leasemq.hearing import Ear
from leasemq.protocol.decide import Returned, decide
from leasemq.protocol.model import Lease, Ref, Settled, Wake
from leasemq.task import Task
from leasemq.testing.virtual_loop import VirtualClock, VirtualLoop, pass_time
from tests.app.holder import Holder
from tests.app.unhurried import unhurried
from tests.app.waiting import until

pytestmark = pytest.mark.local

MANY = 5_000
QUEUE = "default"
MIB = 1024 * 1024
READS = 11  # to look at all of them once


class Hall:
    """Waiters in virtual time, on one backend, and who ends what they wait for. Owner: the test."""

    def __init__(self, loop: VirtualLoop, backend_name: str, folder: Path) -> None:
        self.clock = VirtualClock(loop)
        behind = (
            MemoryBackend(clock=self.clock.now_ms)
            if backend_name == "memory"
            else SqliteBackend(folder / "jobs.db", clock=self.clock.now_ms, inline=True, sync="off")
        )
        backend, self.seen = unhurried(behind, random.Random(1))
        self.app = App(backend)
        self.holder = Holder(self.app)

        @self.app.task(name="t")
        async def t(n: int) -> int:
            return n

        self.task: Task[[int], int] = t

    async def waiting(self, count: int) -> tuple[list[Job[int]], list[asyncio.Task[int]]]:
        """Jobs, and somebody who waits for each of them and has been read."""
        jobs = await self.task.enqueue_many([(number,) for number in range(count)])
        waiters = [asyncio.create_task(job.result()) for job in jobs]
        await until(lambda: self.seen.calls["get"] > 0 and bool(self.seen.open_listeners))
        await pass_time(0.1)
        return jobs, waiters

    async def end(self, leases: Sequence[Lease]) -> None:
        """End these jobs with 7, a hundred in a step."""
        result = self.task.signature.encode_result(7)
        backend = (await self.app._connections.here()).backend
        for start in range(0, len(leases), 100):
            settlements = [
                decide(lease, Returned(result=result), settlement_id=1 + number + start)
                for number, lease in enumerate(leases[start : start + 100])
            ]
            assert set(await backend.settle(QUEUE, settlements)) == {Settled.APPLIED}


@pytest.fixture
def hall(backend_name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Run a play in a hall, in virtual time."""
    loop = VirtualLoop()

    def run(play: Callable[[Hall], Any]) -> None:  # Any: a coroutine
        hall = Hall(loop, backend_name, tmp_path)
        monkeypatch.setattr(lookout, "boot_ms", hall.clock.boot_ms)

        async def main() -> None:
            async with hall.app:
                await play(hall)

        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            runner.run(main())

    return run


@pytest.mark.promise("P-61", "E-26")
def test_five_thousand_waiters_share_one_subscription_and_are_answered_in_batches(hall: Any) -> None:
    async def play(hall: Hall) -> None:
        _, waiters = await hall.waiting(MANY)
        assert hall.seen.calls["get"] <= 2 * READS + 1
        leases = await hall.holder.claim(limit=MANY)
        before = hall.seen.calls.copy()
        await hall.end(leases)
        assert await asyncio.gather(*waiters) == [7] * MANY
        after = hall.seen.calls - before
        assert hall.seen.calls["listen"] == 1
        assert after["get"] <= after["settle"] + READS + 1
        await pass_time(0.1)
        assert not hall.seen.open_listeners

    hall(play)


@pytest.mark.promise("P-61")
@pytest.mark.parametrize("count", [1, MANY])
def test_who_waits_for_long_is_looked_after_rarely_whatever_their_number(hall: Any, count: int) -> None:
    async def play(hall: Hall) -> None:
        _, waiters = await hall.waiting(count)
        await pass_time(5)
        before = hall.seen.calls.copy()
        await pass_time(20)
        sent = hall.seen.calls - before
        reads = sent.pop("get")
        assert not sent
        assert reads <= (21 if count == 1 else 5 * READS)
        for waiter in waiters:
            waiter.cancel()
        await asyncio.wait(waiters)
        await pass_time(0.1)
        assert not hall.seen.open_listeners

    hall(play)


@pytest.mark.promise("P-61", "E-26")
def test_those_who_wait_for_large_jobs_read_little_at_once_and_in_all(hall: Any) -> None:
    async def play(hall: Hall) -> None:
        read: list[int] = []

        def weigh(operation: str, answer: Any) -> None:
            if operation == "get":
                read.append(sum(len(record.payload) for record in answer))

        @hall.app.task(name="heavy")
        async def heavy(text: str) -> int:
            return len(text)

        hall.seen.on_answer = weigh
        jobs = [await heavy.enqueue("x" * 512 * 1_024) for _ in range(100)]
        waiters = [asyncio.create_task(job.result()) for job in jobs]
        await pass_time(20)
        assert max(read[1:]) <= 5 * MIB
        assert sum(read) <= 2 * 50 * MIB + 20 * 10 * MIB
        await hall.end(await hall.holder.claim(limit=100))
        assert await asyncio.gather(*waiters) == [7] * 100

    hall(play)


@pytest.mark.promise("P-61", "P-60", "B57")
def test_when_half_of_fifty_waiters_leave_the_others_are_answered_and_no_subscription_is_left(
    hall: Any,
) -> None:
    async def play(hall: Hall) -> None:
        _, waiters = await hall.waiting(50)
        for waiter in waiters[::2]:
            waiter.cancel()
        await hall.end(await hall.holder.claim(limit=50))
        assert await asyncio.gather(*waiters[1::2]) == [7] * 25
        assert all(waiter.cancelled() for waiter in waiters[::2])
        await pass_time(0.1)
        assert hall.seen.calls["listen"] == 1
        assert not hall.seen.open_listeners

    hall(play)


@pytest.mark.promise("P-60", "B57")
@pytest.mark.parametrize("harm", ["cut", "deaf"])
@pytest.mark.parametrize("meanwhile", [0.0, 0.3, 0.9])
def test_a_subscription_that_is_lost_costs_who_waits_at_most_a_second(
    hall: Any, harm: str, meanwhile: float
) -> None:
    """Cut: it is told. Deaf: it is not, and no push ever comes again."""

    async def play(hall: Hall) -> None:
        _, waiters = await hall.waiting(10)
        (listener,) = hall.seen.open_listeners
        await pass_time(3)
        leases = await hall.holder.claim(limit=10)
        if harm == "deaf":
            listener.is_deaf = True
        await pass_time(meanwhile)
        if harm == "cut":
            listener.cut()
        await hall.end(leases)
        began_ms = hall.clock.boot_ms()
        assert await asyncio.gather(*waiters) == [7] * 10
        assert hall.clock.boot_ms() - began_ms <= 1_000

    hall(play)


@pytest.mark.promise("P-61")
def test_the_end_of_a_job_that_nobody_waits_for_is_pushed_to_nobody(
    hall: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though somebody listens, for another job of the same queue."""
    pushed: list[frozenset[Ref]] = []
    true = Ear.hear

    def hear(ear: Ear, told: Wake) -> None:
        pushed.append(told.ended)
        true(ear, told)

    monkeypatch.setattr(Ear, "hear", hear)

    async def play(hall: Hall) -> None:
        others = await hall.task.enqueue_many([(number,) for number in range(1_000)])
        (job,), (waiter,) = await hall.waiting(1)
        leases = await hall.holder.claim(limit=1_001)
        before = hall.seen.calls.copy()
        await hall.end([lease for lease in leases if lease.ref.id != job.id])
        await pass_time(0.1)
        assert not pushed
        assert (hall.seen.calls - before)["get"] == 0
        await hall.end([lease for lease in leases if lease.ref.id == job.id])
        assert await waiter == 7
        assert [ref.id for refs in pushed for ref in refs] == [job.id]
        assert await others[0].result(timeout=0) == 7

    hall(play)


# ---- statements, on SQLite's own threads


class Statements:
    """Counts what every connection opened from now on runs. Owner: the test."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        self.writes = 0  # transactions that may write
        connect = sqlite3.connect

        def traced(*args: Any, **options: Any) -> sqlite3.Connection:  # Any: sqlite3.connect's own arguments
            connection: sqlite3.Connection = connect(*args, **options)
            connection.set_trace_callback(self._ran)
            return connection

        monkeypatch.setattr(sqlite3, "connect", traced)

    def _ran(self, statement: str) -> None:
        if statement != "PRAGMA data_version":  # the listener's look at the file's version, not at a job
            self.count += 1
            self.writes += statement == "BEGIN IMMEDIATE"


async def statements_for(folder: Path, waiters: int, ran: Statements) -> tuple[int, int]:
    """Have so many wait for some of the jobs that end.

    Answers how many statements that took in all, and how many transactions that may write.
    """
    app = App(f"sqlite:///{folder}/{waiters}.db?sync=normal")

    @app.task(name="t")
    async def t(n: int) -> int:
        return n

    async with app:
        connection = await app._connections.here()
        jobs = await t.enqueue_many([(number,) for number in range(MANY)])
        leases = await Holder(app).claim(limit=MANY)
        result = t.signature.encode_result(7)
        ends_of_all = [decide(lease, Returned(result=result), settlement_id=1) for lease in leases]
        before, writes_before = ran.count, ran.writes
        waiting = [asyncio.create_task(job.result(timeout=60)) for job in jobs[:waiters]]
        if waiting:
            await until(lambda: connection.ends._lookout.listener is not None)
        for start in range(0, MANY, 500):
            await connection.backend.settle(QUEUE, ends_of_all[start : start + 500])
        assert await asyncio.gather(*waiting) == [7] * waiters
        await until(lambda: not connection.ends.is_watching)
        return ran.count - before, ran.writes - writes_before


@pytest.mark.promise("P-61", "E-26")
async def test_five_thousand_waiters_cost_a_few_statements_a_batch_and_no_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran = Statements(monkeypatch)
    counted = [await statements_for(tmp_path, count, ran) for count in (0, 1, MANY)]
    nobody, alone, together = [statements for statements, _ in counted]
    print(f"statements while 5,000 jobs end: nobody waits {nobody:,}, 1 waits {alone:,}, 5,000 {together:,}")
    assert {writes for _, writes in counted} == {MANY // 500}
    assert alone - nobody <= 200
    assert together - nobody <= MANY // 5
