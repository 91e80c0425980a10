"""A snapshot that stays open keeps dead rows alive: claims get slower by a bounded factor, then recover."""

from __future__ import annotations

import asyncio
import os
import statistics
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import psycopg
import pytest

from leasemq.backend import Backend
from leasemq.backends.postgres import from_url
from leasemq.testing.conformance import builders
from tests.servers import PostgresServer

pytestmark = pytest.mark.slow
QUEUE = "q"
CLAIMED = 5  # at once, by each of the workers
WORKERS = 4
LARGEST_FACTOR = 5
DEAD = 1_000


@pytest.fixture
def server(tmp_path: Path) -> Iterator[PostgresServer]:
    """A server of the test's own, with autovacuum on."""
    with PostgresServer(tmp_path / "server") as own:
        yield own


@dataclass
class Course:
    """What the claims of all workers took, and when the server had spent how much. Owner: one test."""

    server: PostgresServer
    times_s: list[float] = field(default_factory=list)
    spent_s: list[float] = field(default_factory=list)  # by the server so far, at each tenth of the jobs
    done: int = 0

    def ended(self, jobs: int, of: int) -> None:
        """Count some more."""
        self.done += jobs
        while self.done * 10 >= len(self.spent_s) * of:
            self.spent_s.append(cpu_s(self.server))

    def factor(self) -> float:
        """How much dearer the ninth tenth was for the server than the second, on however busy a machine."""
        return (self.spent_s[9] - self.spent_s[8]) / (self.spent_s[2] - self.spent_s[1])


def cpu_s(server: PostgresServer) -> float:
    """The processor time of the server's sessions, which all stay open."""
    children = Path(f"/proc/{server.pid}/task/{server.pid}/children").read_text(encoding="ascii").split()
    own = [pid for pid in children if b"leasemq postgres" in Path(f"/proc/{pid}/cmdline").read_bytes()]
    stats = [Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2] for pid in own]
    return sum(sum(map(int, stat.split()[11:13])) for stat in stats) / os.sysconf("SC_CLK_TCK")


async def worked_off(backend: Backend, worker: str, jobs: int, course: Course) -> None:
    """Claim and complete until the queue is empty."""
    while True:
        begun_s = time.perf_counter()
        claimed = await backend.claim(QUEUE, CLAIMED, 600_000, builders.claimant(worker))
        course.times_s.append(time.perf_counter() - begun_s)
        if not claimed.leases:
            return
        await backend.settle(QUEUE, [builders.complete(lease) for lease in claimed.leases])
        course.ended(len(claimed.leases), jobs)


def p95_ms(times_s: list[float]) -> float:
    """The 95th percentile."""
    return statistics.quantiles(times_s, n=20)[-1] * 1_000


async def slowed_by(server: PostgresServer, jobs: int) -> float:
    """Work off so many jobs beside an old snapshot; answers by which factor the last ones were dearer."""
    backends = [from_url(server.url) for _ in range(WORKERS)]
    await backends[0].prepare()
    with closing(psycopg.connect(server.url)) as old:
        old.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        old.execute("SELECT count(*) FROM leasemq.job")
        for start in range(0, jobs, 1_000):
            new = [builders.new_job(f"j-{start + number}") for number in range(1_000)]
            await backends[0].enqueue(QUEUE, new)
        course = Course(server)
        working = [worked_off(backend, f"W{n}", jobs, course) for n, backend in enumerate(backends)]
        await asyncio.gather(*working)
        assert course.done == (await backends[0].counts(QUEUE)).completed == jobs
    for backend in backends:
        await backend.close()
    times_s, tenth = course.times_s, jobs // CLAIMED // 10
    first, last = p95_ms(times_s[:tenth]), p95_ms(times_s[-tenth:])
    factor = course.factor()
    print(f"{jobs} jobs: p95 of a claim {first:.1f} ms at first, {last:.1f} ms at last; CPU x {factor:.1f}")
    return factor


def dead_rows(server: PostgresServer) -> int:
    """What is left of them once the snapshot is gone and the tables were vacuumed."""
    with closing(psycopg.connect(server.url, autocommit=True)) as operator:
        operator.execute("VACUUM ANALYZE")
        ((dead,),) = operator.execute(
            "SELECT sum(n_dead_tup) FROM pg_stat_all_tables WHERE schemaname = 'leasemq'"
        ).fetchall()
    return int(dead)


@pytest.mark.promise("P-94", "B22")
async def test_an_old_snapshot_slows_claims_by_a_bounded_factor(server: PostgresServer) -> None:
    assert await slowed_by(server, 4_000) <= LARGEST_FACTOR
    assert dead_rows(server) < DEAD


@pytest.mark.long
@pytest.mark.timeout(300)
@pytest.mark.promise("P-94", "B22")
async def test_an_old_snapshot_beside_twenty_thousand_jobs_slows_claims_by_a_bounded_factor(
    server: PostgresServer,
) -> None:
    assert await slowed_by(server, 20_000) <= LARGEST_FACTOR
    assert dead_rows(server) < DEAD
