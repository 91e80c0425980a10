"""A real worker and its sweep keep a file from growing while jobs pass through it."""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing

import pytest

from tests.end_to_end.apps.work import task_of
from tests.end_to_end.place import Place
from tests.end_to_end.waiting import until

JOBS = 100_000
CHUNK = 1_000
BACKLOG = 2_000
SAMPLE = 20_000
FULL_FEED = 40_000  # jobs after which the feed has as many events as it keeps
KEEP_S = 1
WAL_LIMIT_BYTES = 64 * 1024 * 1024  # journal_size_limit


def pages(place: Place) -> tuple[int, int]:
    """How many pages the file has, and how many of them are free."""
    with closing(sqlite3.connect(place.file)) as file:
        (found,) = file.execute("PRAGMA page_count").fetchone()
        (free,) = file.execute("PRAGMA freelist_count").fetchone()
        return int(found), int(free)


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.promise("A-34", "P-43")
def test_a_hundred_thousand_jobs_pass_through_a_worker_and_the_file_stops_growing(place: Place) -> None:
    place.use(f"{place.url}?sync=normal")
    place.worker("A", concurrency=100, lease_s=30, is_ready=True)
    counted = task_of(place.app, "counted").options(keep_record=KEEP_S, keep_result=KEEP_S)
    sizes: list[tuple[int, int]] = []
    began_s = time.monotonic()
    for accepted in range(CHUNK, JOBS + 1, CHUNK):
        counted.enqueue_many_sync([()] * CHUNK)
        until(lambda: place.counts().waiting + place.counts().active <= BACKLOG, "the worker keeps up", 120)
        if accepted % SAMPLE == 0 and accepted >= FULL_FEED:
            sizes.append(pages(place))
            print(f"{accepted:7,} jobs: pages, free ones {sizes[-1]}, stored {place.counts().stored:,}")
    until(lambda: place.counts().stored == 0, "all has ended and gone", 120)
    took_s = time.monotonic() - began_s
    counts = place.counts()
    wal_bytes = place.file.with_name(f"{place.file.name}-wal").stat().st_size

    in_all, free = pages(place)
    print(
        f"{JOBS:,} jobs through a real worker in {took_s:.0f} s: pages, free ones {(in_all, free)} in the end"
    )
    assert in_all <= 2 * sizes[0][0], "how many are stored at once depends on how fast the machine is"
    assert in_all - free <= sizes[0][0]
    assert wal_bytes <= WAL_LIMIT_BYTES
    assert (counts.accepted, counts.removed) == (JOBS, JOBS)
    assert len(place.ledger.runs()) == JOBS
