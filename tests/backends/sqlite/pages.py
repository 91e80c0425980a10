"""Counts the pages that SQLite reads for an operation, by what the kernel says this thread has read.

SQLite reads its file page by page (`PRAGMA mmap_size` is 0 unless somebody sets it), so the bytes read,
divided by a page's size, are the pages that were not in the connection's cache.
"""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TypeVar

from leasemq.backends.sqlite import SqliteBackend
from leasemq.client.ids import new_job_id
from leasemq.protocol.model import Claimant, Lease, NewJob, Settlement, State
from leasemq.testing.manual_clock import ManualClock
from tests.backends.sqlite.measure import completed

QUEUE = "mail"
LEASE_MS = 30_000
PAGE_BYTES = 4_096
COUNTERS = Path("/proc/thread-self/io")  # Linux: proc_pid_io(5)
FILL = 500  # jobs per call while a store is filled

T = TypeVar("T")


def bytes_read() -> int:
    """What this thread has read so far, from files in the kernel's cache too."""
    counters = dict(line.split(": ") for line in COUNTERS.read_text(encoding="ascii").splitlines())
    return int(counters["rchar"])


class Meter:
    """Measures operations of one inline backend. Owner: the test."""

    def __init__(self, backend: SqliteBackend) -> None:
        self.pages: dict[str, list[float]] = {}
        self._backend = backend
        before = bytes_read()
        self._own_bytes = bytes_read() - before  # what looking at the counters reads itself

    async def measure(self, name: str, act: Callable[[], Awaitable[T]]) -> T:
        """Do it on a connection that knows the schema, and has no page in its cache."""
        await self._backend._read(lambda step: step.connection.execute("PRAGMA shrink_memory").fetchall())
        before = bytes_read()
        answer = await act()
        read = bytes_read() - before - self._own_bytes
        self.pages.setdefault(name, []).append(read / PAGE_BYTES)
        return answer

    def mean(self, name: str) -> float:
        """Pages read by one operation, on average."""
        return sum(self.pages[name]) / len(self.pages[name])


def new_jobs(count: int, delay_ms: int = 0) -> list[NewJob]:
    """No-op jobs with ids and payloads of the usual size."""
    return [
        NewJob(id=new_job_id(), task="tests.noop", payload=b'{"args":[1,2]}', delay_ms=delay_ms)
        for _ in range(count)
    ]


async def claimed(backend: SqliteBackend, limit: int) -> Sequence[Lease]:
    """The leases of one claim."""
    claimant = Claimant(worker="w", incarnation="i", request_id=secrets.token_hex(16))
    return (await backend.claim(QUEUE, limit, LEASE_MS, claimant)).leases


def ended(lease: Lease, keep_ms: int | None = None) -> Settlement:
    """The settlement of a function that returned nothing; kept as the job asks, or for so long."""
    settlement = completed(lease)
    return settlement if keep_ms is None else replace(settlement, keep_ms=keep_ms, result_ms=keep_ms)


async def fill(backend: SqliteBackend, count: int, kind: State) -> None:
    """Store so many jobs that are completed, scheduled for later, or waiting."""
    for start in range(0, count, FILL):
        delay_ms = 3_600_000 + start if kind is State.SCHEDULED else 0
        await backend.enqueue(QUEUE, new_jobs(FILL, delay_ms))
        if kind is State.COMPLETED:
            await backend.settle(QUEUE, [ended(lease) for lease in await claimed(backend, FILL)])


async def measured(path: Path, stored: int, kind: State, *, batch: int, rounds: int = 5) -> Meter:
    """Enqueue, claim and settle `batch` jobs among so many stored ones."""
    clock = ManualClock()
    # The feed is as long in both, whatever is stored: it has its own bound.
    backend = SqliteBackend(path, clock=clock, inline=True, sync="off", event_limit=2 * FILL)
    await backend.prepare()
    await fill(backend, stored, kind)
    await backend.close()
    await backend.prepare()
    await backend.counts(QUEUE)
    meter = Meter(backend)
    for _ in range(rounds):
        clock.advance(10)
        jobs = new_jobs(batch)
        await meter.measure("enqueue", partial(backend.enqueue, QUEUE, jobs))
        leases = await meter.measure("claim", partial(claimed, backend, batch))
        ends = [ended(lease) for lease in leases]
        await meter.measure("settle", partial(backend.settle, QUEUE, ends))
    await backend.close()
    return meter
