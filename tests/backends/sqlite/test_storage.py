"""What passes through a queue leaves nothing behind: the file stops growing, and empties in the end."""

from __future__ import annotations

import resource
import sqlite3
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from leasemq.backends.sqlite import SqliteBackend
from leasemq.clock import boot_ms
from leasemq.maintenance import follow_up
from leasemq.protocol.insight import Counts, Schedule, WorkerInfo
from leasemq.protocol.model import Keep, Lease, State, Unique, UniqueMode
from leasemq.testing.conformance import builders
from leasemq.testing.conformance.builders import HOUR_MS
from leasemq.testing.manual_clock import ManualClock
from tests.backends.sqlite.pages import QUEUE, claimed, ended, new_jobs

BATCH = 500
STEP_MS = 100  # that passes for each batch
KEEP_MS = 2_000  # so at any time some twenty batches are kept
PRUNE_LIMIT = 1_000
MIB = 1024 * 1024
WAL_LIMIT_BYTES = 64 * MIB  # journal_size_limit
WORKER = WorkerInfo(
    worker="w", incarnation="i", host="h", pid=1, version="0", queues=("mail",), slots=1, running=0
)
LATER_MS = 8 * 24 * 3_600_000  # events are kept for seven days


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How large the store is."""

    pages: int
    free_pages: int
    wal_bytes: int
    resident_bytes: int


class Stream:
    """Jobs that pass through a queue as a producer, a worker and its sweep see to it. Owner: the test."""

    def __init__(self, path: Path, **settings: int) -> None:
        self._path = path
        self._clock = ManualClock()
        self.backend = SqliteBackend(
            path,
            clock=self._clock,
            inline=True,
            sync="normal",
            event_limit=settings.get("event_limit", 100_000),
        )

    async def let_pass(self, count: int) -> None:
        """Have so many jobs come, run and go."""
        for _ in range(0, count, BATCH):
            await self.backend.enqueue(QUEUE, new_jobs(BATCH))
            leases = await claimed(self.backend, BATCH)
            await self.backend.settle(QUEUE, [ended(lease, KEEP_MS) for lease in leases])
            self._clock.advance(STEP_MS)
            await self.backend.advance(QUEUE, PRUNE_LIMIT)
            await self.backend.prune(QUEUE, PRUNE_LIMIT)

    async def end(self) -> Counts:
        """Let every retention pass."""
        for _ in range(2):  # what goes leaves an event, which goes in its turn
            self._clock.advance(LATER_MS)
            while await self.backend.prune(QUEUE, PRUNE_LIMIT):
                pass
        return await self.backend.counts(QUEUE)

    def size(self) -> Size:
        """Look at the file as an outsider."""
        with closing(sqlite3.connect(self._path)) as file:
            (pages,) = file.execute("PRAGMA page_count").fetchone()
            (free_pages,) = file.execute("PRAGMA freelist_count").fetchone()
        wal = Path(f"{self._path}-wal")
        return Size(
            pages=pages,
            free_pages=free_pages,
            wal_bytes=wal.stat().st_size if wal.exists() else 0,
            resident_bytes=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        )


@pytest.mark.promise("A-34", "P-43")
async def test_the_file_stops_growing_while_twenty_thousand_jobs_pass(tmp_path: Path) -> None:
    stream = Stream(tmp_path / "jobs.db", event_limit=6_000)
    await stream.backend.prepare()
    await stream.let_pass(12_000)
    early = stream.size()
    assert (await stream.backend.counts(QUEUE)).stored <= (KEEP_MS // STEP_MS + 1) * BATCH
    await stream.let_pass(20_000)
    late = stream.size()
    counts = await stream.end()
    await stream.backend.close()

    assert late.pages <= early.pages * 1.1
    assert (counts.accepted, counts.removed, counts.stored) == (32_000, 32_000, 0)


@pytest.mark.long
@pytest.mark.timeout(1_800)
@pytest.mark.promise("A-34", "P-43")
async def test_the_file_stops_growing_while_a_million_jobs_pass(tmp_path: Path) -> None:
    stream = Stream(tmp_path / "jobs.db")
    await stream.backend.prepare()
    began_ms = boot_ms()
    sizes: list[Size] = []
    for done in range(100_000, 1_000_001, 100_000):
        await stream.let_pass(100_000)
        sizes.append(stream.size())
        print(f"{done:9,} jobs: {sizes[-1]}", flush=True)
    took_s = (boot_ms() - began_ms) / 1_000
    before = await stream.backend.counts(QUEUE)
    counts = await stream.end()
    rows = rows_left(tmp_path / "jobs.db")
    await stream.backend.close()

    print(f"1,000,000 jobs through one SQLite queue in {took_s:.0f} s; at the end {counts}, rows {rows}")
    settled = sizes[1:]
    assert max(size.pages for size in settled) <= 1.1 * min(size.pages for size in settled)
    assert max(size.wal_bytes for size in sizes) <= WAL_LIMIT_BYTES
    assert settled[-1].resident_bytes - settled[0].resident_bytes <= 20 * MIB
    assert before.accepted == before.completed + before.removed == 1_000_000
    assert (counts.accepted, counts.removed, counts.stored) == (1_000_000, 1_000_000, 0)
    assert not rows


KEPT_TABLES = frozenset(
    {"leasemq_meta", "leasemq_store", "leasemq_queue"}
)  # a row each; one a namespace, one a queue


def tables_of(path: Path) -> frozenset[str]:
    """Every table of the store that is to be empty in the end."""
    with closing(sqlite3.connect(path)) as file:
        found = file.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND name LIKE 'leasemq%'")
        return frozenset(name for (name,) in found) - KEPT_TABLES


def rows_left(path: Path) -> dict[str, int]:
    """How many rows these tables have, those that have any."""
    names = tables_of(path)
    with closing(sqlite3.connect(path)) as file:
        counted = {name: file.execute(f"SELECT count(*) FROM {name}").fetchone()[0] for name in names}  # noqa: S608  own names
    return {name: rows for name, rows in counted.items() if rows}


# ---- everything that can be stored


async def store_something_everywhere(backend: SqliteBackend, clock: ManualClock) -> None:
    """Have rows in every table there is, and every way in which a job can end or go."""

    async def lease(job_id: str, *, queue: str = "mail", **fields: Any) -> Lease:  # Any: fields of NewJob
        await backend.enqueue(queue, [builders.new_job(job_id, **fields)])
        (found,) = (await backend.claim(queue, 1, builders.LEASE_MS, builders.claimant())).leases
        return found

    short = Keep(result_ms=HOUR_MS, record_ms=0)
    await backend.settle("mail", [builders.complete(await lease("slip", keep=short))])
    for _ in range(2):  # a life that makes way for the next
        again = await lease("again", reuse=frozenset({State.COMPLETED}), unique=Unique(key="u"))
        await backend.settle("mail", [builders.complete(again)])
    noted = await lease("noted", trail=10)
    for number, note in enumerate(builders.NOTES.values(), start=1):
        await backend.note("mail", [replace(note(noted), number=number)])
    await backend.settle("mail", [builders.retry(noted), builders.retry(noted)])
    await backend.settle("mail", [replace(builders.complete(noted), id=77)])  # refused, and noted
    failing = (await backend.claim("mail", 1, builders.LEASE_MS, builders.claimant())).leases[0]
    await backend.settle("mail", [builders.fail(failing)])
    await backend.settle("mail", [builders.complete(await lease("parent"))])
    await backend.enqueue("mail", [builders.with_parent("child", "boss"), builders.new_job("boss")])
    await follow_up(backend, "mail", 100)
    key = Unique(key="k", mode=UniqueMode.REPLACE)
    await backend.enqueue("mail", [builders.new_job(name, unique=key) for name in ("held", "merged")])
    throttle = Unique(key="t", mode=UniqueMode.THROTTLE, window_ms=HOUR_MS)
    await backend.enqueue("mail", [builders.new_job("throttled", unique=throttle)])
    await backend.enqueue(
        "mail", [builders.new_job("stale", ttl_ms=1), builders.new_job("later", delay_ms=1)]
    )
    clock.advance(10)
    await backend.advance("mail", 100)
    await backend.enqueue("mail", [builders.with_parent("untold", "nobody")])
    await backend.put_schedule(Schedule(name="s", queue="mail", spec=b"", cursor_ms=0))
    await backend.announce(WORKER, 60_000)


async def take_all_away(backend: SqliteBackend, clock: ManualClock) -> None:
    """End what has not ended, cancel and remove some, and let every retention pass."""
    await backend.cancel("mail", ["held"])
    await backend.remove("mail", ["throttled"], force=False)
    for queue in await backend.queues():
        while leases := (await backend.claim(queue, 100, builders.LEASE_MS, builders.claimant())).leases:
            await backend.settle(queue, [builders.complete(lease) for lease in leases])
            await follow_up(backend, queue, 100)
    for _ in range(2):  # what goes leaves an event, which goes in its turn
        clock.advance(10 * LATER_MS)
        for queue in await backend.queues():
            while await backend.prune(queue, 100):
                pass
    await backend.delete_schedule("s")
    await backend.retire(WORKER.incarnation)


@pytest.mark.promise("A-34", "P-43")
async def test_once_every_retention_has_passed_no_table_has_a_row_left(
    backend: SqliteBackend, clock: ManualClock, path: Path
) -> None:
    await store_something_everywhere(backend, clock)
    stored = rows_left(path)
    assert tables_of(path) == stored.keys(), "a table that this test does not know how to fill"

    await take_all_away(backend, clock)

    assert rows_left(path) == {}
    counts = await backend.counts("mail")
    assert (counts.stored, counts.accepted) == (0, counts.removed)
