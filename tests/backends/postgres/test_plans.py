"""How PostgreSQL carries out our functions: by an index, never by reading whole tables."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from leasemq.backend import Backend
from leasemq.backends.postgres import from_url
from leasemq.clock import boot_ms
from leasemq.protocol.insight import Filter
from leasemq.protocol.model import State
from leasemq.testing.conformance import builders
from tests.end_to_end.waiting import until
from tests.servers import PostgresServer

QUEUE = "q"
BATCH = 1_000
EXPLAINED = (
    "-c session_preload_libraries=auto_explain -c auto_explain.log_min_duration=0 "
    "-c auto_explain.log_nested_statements=on"
)
# Tables that have a row for each queue, worker, schedule or waiter, and no more with more jobs.
SMALL = frozenset(
    {"queue", "store", "feed", "chore", "interest", "follower", "worker", "schedule", "migration"}
)
SCAN = re.compile(r"Seq Scan on (?:\w+\.)?(\w+)")
USED = re.compile(r"Index (?:Only )?Scan(?: Backward)? using (\w+)")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[PostgresServer]:
    """A server that analyses nothing by itself."""
    with PostgresServer(tmp_path / "server", options={"autovacuum": "off"}) as own:
        yield own


async def filled(backend: Backend, count: int) -> None:
    """Store jobs: half of them waiting, a quarter completed, a quarter scheduled."""
    for start in range(0, count // 2 + count // 4, BATCH):
        jobs = [builders.new_job(f"job-{start + number}") for number in range(BATCH)]
        await backend.enqueue(QUEUE, jobs)
    for start in range(0, count // 4, BATCH):
        later = [
            builders.new_job(f"late-{start + number}", delay_ms=86_400_000 + number)
            for number in range(BATCH)
        ]
        await backend.enqueue(QUEUE, later)
    for number in range(count // 4 // BATCH):
        claimed = await backend.claim(QUEUE, BATCH, 600_000, builders.claimant("A", request=f"fill-{number}"))
        await backend.settle(QUEUE, [builders.complete(lease) for lease in claimed.leases])


async def everything(backend: Backend, turn: str) -> float:
    """Do what workers, sweeps and operators do, once each; answers how many ms a claim of 10 took."""
    asked_ms = boot_ms()
    claimed = await backend.claim(QUEUE, 10, 600_000, builders.claimant("A", request=f"claim-{turn}"))
    took_ms = boot_ms() - asked_ms
    assert len(claimed.leases) == 10
    held = [(lease.ref.id, lease.fence) for lease in claimed.leases]
    with closing(backend.renewer()) as renewer:
        renewer.renew(QUEUE, held, 600_000)
    await backend.settle(QUEUE, [builders.complete(lease) for lease in claimed.leases[:5]])
    await backend.settle(QUEUE, [builders.retry(lease) for lease in claimed.leases[5:]])
    await backend.claimed_by(QUEUE, "A")
    await backend.expired(QUEUE, 100)
    await backend.advance(QUEUE, 100)
    await backend.outbox(QUEUE, 100)
    await backend.enqueue(QUEUE, [builders.new_job(f"{turn}-{number}") for number in range(10)])
    await backend.get(QUEUE, ["job-1", f"{turn}-1", "late-1", "none"])
    await backend.standing(QUEUE, f"{turn}-1")
    await backend.slips(QUEUE, [("job-1", 1)])
    await backend.counts(QUEUE)
    page = await backend.find(QUEUE, Filter(states=frozenset({State.WAITING})), None, 10)
    await backend.find(QUEUE, Filter(), page.cursor, 10)
    events = await backend.events(QUEUE, "", 100)
    await backend.events(QUEUE, events.cursor, 100)
    await backend.promote(QUEUE, ["late-1"])
    await backend.reschedule(QUEUE, ["late-2"], 1_000)
    await backend.reprioritise(QUEUE, [f"{turn}-2"], 5)
    await backend.cancel(QUEUE, [f"{turn}-3", "late-3"])
    await backend.replay(QUEUE, [f"{turn}-3"], 7)
    await backend.remove(QUEUE, [f"{turn}-4"], force=False)
    await backend.purge(QUEUE, frozenset({State.CANCELLED}), 0, 10)
    await backend.drain(QUEUE, 2)
    await backend.prune(QUEUE, 100)
    return took_ms


def whole_tables_read(log: str) -> set[str]:
    """The large tables of which the log shows that they were read from one end to the other."""
    return set(SCAN.findall(log)) - SMALL


async def planned(server: PostgresServer, count: int) -> None:
    """Fill a store, do everything with and without statistics, and read the plans."""
    plain = from_url(server.url)
    await plain.prepare()
    await filled(plain, count)
    await plain.close()
    for turn in ("never analysed", "analysed"):
        if turn == "analysed":
            with closing(psycopg.connect(server.url, autocommit=True)) as operator:
                operator.execute("ANALYZE")
        start = len(server.output())
        backend = from_url(f"{server.url}?options={EXPLAINED.replace(' ', '%20').replace('=', '%3D')}")
        took_ms = await everything(backend, turn.replace(" ", "-"))
        await backend.close()
        log = server.output()[start:]
        print(
            f"{count} jobs, {turn}: a claim of 10 took {took_ms} ms, "
            f"{len(set(USED.findall(log)))} indexes were used"
        )
        assert USED.findall(log), "the plans are in the log"
        assert whole_tables_read(log) == set()
    with closing(psycopg.connect(server.url, options=EXPLAINED)) as operator:
        operator.execute("SELECT sum(key) FROM leasemq.job")
    until(lambda: "job" in whole_tables_read(server.output()), "such a read would have been seen")


@pytest.mark.slow
@pytest.mark.promise("P-94", "P-34")
async def test_no_function_reads_a_whole_table(server: PostgresServer) -> None:
    await planned(server, 8_000)


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.promise("P-94", "P-34")
async def test_with_a_million_stored_jobs_no_function_reads_a_whole_table(server: PostgresServer) -> None:
    await planned(server, 1_000_000)
