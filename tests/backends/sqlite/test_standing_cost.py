"""What asking how a job stands, and for counts, reads of the file: no more among many waiting jobs."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from leasemq.backends.sqlite import SqliteBackend
from leasemq.protocol.model import NewJob, State
from leasemq.testing.manual_clock import ManualClock
from tests.backends.sqlite.pages import COUNTERS, FILL, QUEUE, Meter, fill

FEW, MANY = 2 * FILL, 16 * FILL
LEVELS = 6  # trees that one read descends, and that many rows may make a level deeper


async def read(path: Path, stored: int) -> Meter:
    """Ask among so many waiting jobs about the first and the last of them."""
    backend = SqliteBackend(path, clock=ManualClock(), inline=True, sync="off", event_limit=2 * FILL)
    await backend.prepare()
    await backend.enqueue(QUEUE, [NewJob(id="first", task="t", payload=b"", priority=1)])
    await fill(backend, stored, State.WAITING)
    await backend.enqueue(QUEUE, [NewJob(id="last", task="t", payload=b"")])
    await backend.close()
    await backend.prepare()
    await backend.counts(QUEUE)
    meter = Meter(backend)
    for id_ in ("first", "last"):
        await meter.measure(id_, partial(backend.standing, QUEUE, id_))
    await meter.measure("counts", partial(backend.counts, QUEUE))
    await backend.close()
    return meter


@pytest.mark.skipif(not COUNTERS.exists(), reason="the kernel does not count what is read")
@pytest.mark.promise("P-116", "P-43", "P-115")
async def test_what_asking_reads_does_not_grow_with_the_jobs_that_wait(tmp_path: Path) -> None:
    few = await read(tmp_path / "few.db", FEW)
    many = await read(tmp_path / "many.db", MANY)

    for name in ("first", "last", "counts"):
        assert many.mean(name) <= few.mean(name) + LEVELS, name
    assert few.mean("first") > 3, "the kernel counts nothing"
