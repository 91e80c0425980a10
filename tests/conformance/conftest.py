"""Runs the shipped suite on the backends of this package, and lets it look behind each one's back."""

from __future__ import annotations

import asyncio
import inspect
import sqlite3
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from leasemq.backends.memory import MemoryBackend
from leasemq.backends.sqlite import SqliteBackend
from leasemq.testing.conformance.store import (
    CountStatements,
    FindOrphans,
    OpenBackend,
    PlantCorruption,
)
from leasemq.testing.manual_clock import ManualClock
from tests.servers.stores import ServedStore, chosen

MEMORY_PACKAGE = str(Path(inspect.getfile(MemoryBackend)).parent)
CORRUPTIONS = (  # ways in which the bytes of a stored job can be wrong
    "UPDATE leasemq_body SET task = x'ff' WHERE job = ?",  # not text
    "UPDATE leasemq_body SET unique_key = 'k', unique_mode = 'sideways' WHERE job = ?",  # an unknown word
    "UPDATE leasemq_body SET keep_dead_ms = 'soon' WHERE job = ?",  # not a number
    "DELETE FROM leasemq_body WHERE job = ?",  # a missing part
)
PARTS_OF_A_JOB = (
    "leasemq_body", "leasemq_value", "leasemq_attempt", "leasemq_refused", "leasemq_log", "leasemq_alias",
    "leasemq_parent", "leasemq_dependant", "leasemq_trail",
)  # fmt: skip


@pytest.fixture(params=chosen())
def backend_name(request: pytest.FixtureRequest) -> str:
    """Which backend the test runs on."""
    return str(request.param)


@pytest.fixture
def store_path(tmp_path: Path) -> Path:
    """The file of the SQLite store."""
    return tmp_path / "jobs.db"


@pytest.fixture
def open_backend(
    backend_name: str,
    store_path: Path,
    clock: ManualClock,
    count_statements: CountStatements,
    served: ServedStore | None,
) -> OpenBackend:
    """Memory: one object for all views. The others: one object per view, on one file or server."""
    if served is not None:
        return lambda: served.open(clock)
    if backend_name == "memory":
        memory = MemoryBackend(clock=clock)
        return lambda: memory
    return lambda: SqliteBackend(store_path, clock=clock, sync="normal")  # power cuts are tested elsewhere


@pytest.fixture
def plant_corruption(
    backend_name: str, store_path: Path, served: ServedStore | None
) -> list[PlantCorruption]:
    """Break the bytes of one job in the file, in each of several ways; memory keeps objects, not bytes."""
    if served is not None:
        return served.plants()
    return [] if backend_name == "memory" else [_planter(store_path, sql) for sql in CORRUPTIONS]


def _planter(path: Path, corruption: str) -> PlantCorruption:
    def plant(queue: str, job_id: str) -> None:
        with closing(sqlite3.connect(path)) as file, file:
            (key,) = file.execute(
                "SELECT j.key FROM leasemq_job j JOIN leasemq_queue q ON q.key = j.queue"
                " WHERE q.name = ? AND j.id = ?",
                (queue, job_id),
            ).fetchone()
            assert file.execute(corruption, (key,)).rowcount == 1

    async def plant_in_a_thread(queue: str, job_id: str) -> None:
        await asyncio.to_thread(plant, queue, job_id)

    return plant_in_a_thread


@pytest.fixture
def count_statements(
    backend_name: str, served: ServedStore | None, monkeypatch: pytest.MonkeyPatch
) -> Iterator[CountStatements]:
    """Count what every connection opened from now on runs; in memory, the calls inside the package."""
    if served is not None:
        yield served.counting(monkeypatch)
        return
    if backend_name == "memory":
        yield _count_calls
        if isinstance(sys.getprofile(), _CallCounter):
            sys.setprofile(None)
        return
    connect: Callable[..., sqlite3.Connection] = sqlite3.connect
    ran: list[str] = []

    def traced(*args: Any, **options: Any) -> sqlite3.Connection:  # Any: sqlite3.connect's own arguments
        connection = connect(*args, **options)
        connection.set_trace_callback(ran.append)
        return connection

    monkeypatch.setattr(sqlite3, "connect", traced)
    yield lambda: len(ran)


def _count_calls() -> int:
    """Count the memory backend's function calls and generator steps, from the first time on."""
    counter = sys.getprofile()
    if not isinstance(counter, _CallCounter):
        counter = _CallCounter()
        sys.setprofile(counter)
    return counter.calls


class _CallCounter:
    """Owned by the interpreter's profiling hook of the test's thread."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, frame: FrameType, event: str, argument: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(MEMORY_PACKAGE):
            self.calls += 1


@pytest.fixture
def find_orphans(backend_name: str, store_path: Path, served: ServedStore | None) -> FindOrphans | None:
    """Find rows or keys that belong to no job."""
    if served is not None:
        return served.orphans
    if backend_name == "memory":
        return None
    return lambda: _orphans(store_path)


def _orphans(path: Path) -> list[str]:
    found = []
    with closing(sqlite3.connect(path)) as file:
        for table in PARTS_OF_A_JOB:
            rows = file.execute(
                f"SELECT job FROM {table} WHERE job NOT IN (SELECT key FROM leasemq_job)"  # noqa: S608  own names
            )
            found += [f"{table}: job {key}" for (key,) in rows]
        keys = file.execute(
            "SELECT h.unique_key, h.id FROM leasemq_hold h WHERE h.until_ms IS NULL AND NOT EXISTS"
            " (SELECT 1 FROM leasemq_job j WHERE j.queue = h.queue AND j.id = h.id"
            " AND j.generation = h.generation)"
        )
        found += [f"leasemq_hold: key {key!r} of {job_id!r}" for key, job_id in keys]
    return found
