"""No wake-up is lost, however the end of a job and the wait for it interleave.

Nothing comes to the rescue here: waiters are looked after at the beginning only, so an end that is missed
is missed for good. In virtual time one seed is one interleaving of all that happens; on SQLite's threads,
and between two backends on one file, the order is the machine's own.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from leasemq import App, Job
from leasemq.backend import Backend
from leasemq.backends.memory import MemoryBackend
from leasemq.backends.sqlite import SqliteBackend
from leasemq.client import lookout
from leasemq.client.ids import new_request_number
from leasemq.protocol.decide import Returned, decide
from leasemq.protocol.model import Claimant, Lease, Settled
from leasemq.task import Task
from leasemq.testing.virtual_loop import VirtualClock, run_virtual
from tests.app.unhurried import turns, unhurried

pytestmark = pytest.mark.local

RUNS, ALL_RUNS = 1_000, 10_000
RUNS_PER_SEED = 100
TOGETHER = 5  # waiters at once, at most
TIMEOUT_S = 20.0
QUEUES = ("left", "right")
ORDERS = ("after", "before", "during")  # the end, as seen from the wait's beginning


@pytest.fixture(autouse=True)
def no_look_comes_to_the_rescue(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stop the clock by which waiters are looked after from time to time."""
    monkeypatch.setattr(lookout, "boot_ms", lambda: 1_000_000)


class Races:
    """Waits for jobs while they end, in every order. Owner: the test.

    Args:
        backend: where the waiters' app is.
        other: where jobs are claimed and ended.
    """

    def __init__(self, backend: Backend, other: Backend, dice: random.Random) -> None:
        self.app = App(backend)
        self.seen: Counter[str] = Counter()
        self._other = other
        self._dice = dice

        @self.app.task(name="t")
        async def t(n: int) -> int: ...

        self._task: Task[[int], int] = t

    async def run(self, count: int) -> None:
        """Wait so often, in two queues; every wait must answer its own value."""
        async with self.app, asyncio.TaskGroup() as group:
            for queue in QUEUES:
                group.create_task(self._run(queue, count // len(QUEUES)))

    async def _run(self, queue: str, count: int) -> None:
        done = 0
        while done < count:
            together = min(self._dice.randint(1, TOGETHER), count - done)
            await self._race(queue, range(done, done + together))
            done += together

    async def _race(self, queue: str, numbers: Sequence[int]) -> None:
        keep_record = self._dice.choice([0, 3_600])  # 0: the result is all that is left
        ways = self._task.options(queue=queue, keep_record=keep_record, keep_result=3_600)
        jobs = await ways.enqueue_many([(number,) for number in numbers])
        claimant = Claimant(worker="w", incarnation="w", request_id=f"{new_request_number():032x}")
        leases = (await self._other.claim(queue, len(jobs), 60_000, claimant)).leases
        assert [lease.ref.id for lease in leases] == [job.id for job in jobs]
        async with asyncio.TaskGroup() as group:
            for job, lease, number in zip(jobs, leases, numbers, strict=True):
                group.create_task(self._wait_and_end(job, lease, number, self._dice.choice(ORDERS)))

    async def _wait_and_end(self, job: Job[int], lease: Lease, value: int, order: str) -> None:
        self.seen[order] += 1
        if order == "before":
            await self._end(lease, value)
            assert await self._wait(job) == value
            return
        async with asyncio.TaskGroup() as group:
            waiting = group.create_task(self._wait(job))
            await turns(self._dice.randrange(40) if order == "after" else self._dice.randrange(3))
            await self._end(lease, value)
        assert waiting.result() == value

    async def _wait(self, job: Job[int]) -> int:
        await turns(self._dice.randrange(4))
        if self._dice.randrange(4) == 0:  # think better of it, and again
            given_up = asyncio.ensure_future(job.result())
            await turns(self._dice.randrange(8))
            given_up.cancel()
            await asyncio.wait({given_up})
            await turns(self._dice.randrange(4))
        return await job.result(timeout=TIMEOUT_S)

    async def _end(self, lease: Lease, value: int) -> None:
        returned = Returned(result=self._task.signature.encode_result(value))
        settlement = decide(lease, returned, settlement_id=new_request_number())
        assert await self._other.settle(lease.ref.queue, [settlement]) == (Settled.APPLIED,)


def race_in_virtual_time(backend_name: str, folder: Path, runs: int) -> Counter[str]:
    """Run each hundred under a seed of its own; answers how many there were of each order."""
    seen: Counter[str] = Counter()
    for seed in range(runs // RUNS_PER_SEED):

        async def play(seed: int = seed) -> None:
            clock = VirtualClock.of_running_loop()
            behind = stored(backend_name, folder / f"{seed}.db", clock)
            dice = random.Random(seed)
            backend, _ = unhurried(behind, dice)
            races = Races(backend, backend, dice)
            await races.run(RUNS_PER_SEED)
            seen.update(races.seen)
            assert clock.boot_ms() < 1_000, "an answer had to wait"
            await behind.close()

        run_virtual(play(), seed=seed)
    return seen


def stored(backend_name: str, path: Path, clock: VirtualClock) -> Backend:
    """A backend in virtual time."""
    if backend_name == "memory":
        return MemoryBackend(clock=clock.now_ms)
    return SqliteBackend(path, clock=clock.now_ms, inline=True, sync="off")


async def race_in_real_time(folder: Path, runs: int) -> Counter[str]:
    """Run them on SQLite's own threads: half with one backend object, half with two on one file."""
    seen: Counter[str] = Counter()
    for other_path in (None, "jobs.db"):
        backend = SqliteBackend(folder / "jobs.db", sync="normal")
        other = backend if other_path is None else SqliteBackend(folder / other_path, sync="normal")
        await other.prepare()
        races = Races(backend, other, random.Random(runs))
        await races.run(runs // 2)
        seen.update(races.seen)
        await other.close()
        await backend.close()
    return seen


@pytest.mark.promise("P-60", "E-32", "B57")
def test_a_thousand_waits_race_with_ends_in_every_order(backend_name: str, tmp_path: Path) -> None:
    seen = race_in_virtual_time(backend_name, tmp_path, RUNS)
    assert min(seen[order] for order in ORDERS) > RUNS // 5


@pytest.mark.promise("P-60", "E-32", "B57")
async def test_waits_race_with_ends_on_threads_and_between_two_connections(tmp_path: Path) -> None:
    seen = await race_in_real_time(tmp_path, RUNS // 2)
    assert min(seen[order] for order in ORDERS) > RUNS // 10


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.promise("P-60", "E-32", "B57")
def test_ten_thousand_waits_race_with_ends_in_every_order(backend_name: str, tmp_path: Path) -> None:
    seen = race_in_virtual_time(backend_name, tmp_path, ALL_RUNS)
    print(f"waits: {sum(seen.values()):,} on {backend_name} in virtual time, all answered: {dict(seen)}")


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.promise("P-60", "E-32", "B57")
async def test_ten_thousand_waits_race_with_ends_on_threads(tmp_path: Path) -> None:
    seen = await race_in_real_time(tmp_path, ALL_RUNS)
    print(f"waits: {sum(seen.values()):,} on sqlite's threads, all answered: {dict(seen)}")
