"""A snapshot that stays open keeps dead rows alive: claims get slower by a bounded factor, then recover."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Iterator
from contextlib import closing
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


async def worked_off(backend: Backend, worker: str, times_s: list[float]) -> int:
    """Claim and complete until the queue is empty; answers how many jobs that were."""
    done = 0
    while True:
        begun_s = time.perf_counter()
        claimed = await backend.claim(QUEUE, CLAIMED, 600_000, builders.claimant(worker))
        times_s.append(time.perf_counter() - begun_s)
        if not claimed.leases:
            return done
        await backend.settle(QUEUE, [builders.complete(lease) for lease in claimed.leases])
        done += len(claimed.leases)


def p95(times_s: list[float]) -> float:
    """The 95th percentile."""
    return statistics.quantiles(times_s, n=20)[-1]


async def slowed_by(server: PostgresServer, jobs: int, at_each_end: int) -> float:
    """Work off so many jobs beside an old snapshot; answers by which factor the last claims were slower."""
    backends = [from_url(server.url) for _ in range(WORKERS)]
    await backends[0].prepare()
    with closing(psycopg.connect(server.url)) as old:
        old.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        old.execute("SELECT count(*) FROM leasemq.job")
        for start in range(0, jobs, 1_000):
            new = [builders.new_job(f"j-{start + number}") for number in range(1_000)]
            await backends[0].enqueue(QUEUE, new)
        times_s: list[float] = []
        asked = [worked_off(backend, f"W{n}", times_s) for n, backend in enumerate(backends)]
        assert sum(await asyncio.gather(*asked)) == jobs
        assert (await backends[0].counts(QUEUE)).completed == jobs
    for backend in backends:
        await backend.close()
    first, last = p95(times_s[:at_each_end]), p95(times_s[-at_each_end:])
    print(f"{jobs} jobs: p95 of a claim {first * 1_000:.1f} ms at first, {last * 1_000:.1f} ms at last")
    return last / first


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
    assert await slowed_by(server, 4_000, 100) <= LARGEST_FACTOR
    assert dead_rows(server) < DEAD


@pytest.mark.long
@pytest.mark.timeout(300)
@pytest.mark.promise("P-94", "B22")
async def test_an_old_snapshot_beside_twenty_thousand_jobs_slows_claims_by_a_bounded_factor(
    server: PostgresServer,
) -> None:
    assert await slowed_by(server, 20_000, 1_000 // CLAIMED) <= LARGEST_FACTOR
    assert dead_rows(server) < DEAD
