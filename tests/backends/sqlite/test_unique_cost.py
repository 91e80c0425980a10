"""What an enqueue with an id or a unique key of its own costs does not grow with the jobs that are stored."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from leasemq.backends.sqlite import SqliteBackend
from leasemq.protocol.model import Acceptance, NewJob, State, Unique, UniqueMode
from leasemq.testing.manual_clock import ManualClock
from tests.backends.sqlite.test_plans import SCAN

FEW, MANY = 10, 10_000
FILL = 500  # jobs per call while a store is filled
PLANNED = ("SELECT", "INSERT", "UPDATE", "DELETE", "WITH")
STEP = 10  # how many instructions of SQLite's machine pass between two counts
WINDOW_MS = 60_000


def _keyed(id_: str, key: str, mode: UniqueMode = UniqueMode.SKIP) -> NewJob:
    window_ms = None if mode in (UniqueMode.SKIP, UniqueMode.REPLACE) else WINDOW_MS
    unique = Unique(key=key, mode=mode, window_ms=window_ms)
    bound = WINDOW_MS if mode is UniqueMode.DEBOUNCE else None
    return NewJob(id=id_, task="t", payload=b"p", unique=unique, at_most_ms=bound)


CALLS: dict[str, tuple[NewJob, Acceptance]] = {
    "a free key": (_keyed("new", "free"), Acceptance.CREATED),
    "a held key": (_keyed("x1", "k000001"), Acceptance.SKIPPED),
    "replace": (_keyed("x2", "k000002", UniqueMode.REPLACE), Acceptance.REPLACED),
    "debounce": (_keyed("x3", "k000003", UniqueMode.DEBOUNCE), Acceptance.DEBOUNCED),
    "throttle": (_keyed("x4", "k000004", UniqueMode.THROTTLE), Acceptance.SKIPPED),
    "a known id": (NewJob(id="j000005", task="t", payload=b"p"), Acceptance.EXISTING),
    "a merged id": (_keyed("x2", "k000002", UniqueMode.REPLACE), Acceptance.EXISTING),
    "reuse": (
        NewJob(id="j000006", task="t", payload=b"p", reuse=frozenset({State.CANCELLED})),
        Acceptance.CREATED,
    ),
}


@dataclass
class Cost:
    """What one call made SQLite do. Owned by the measurement."""

    statements: list[str] = field(default_factory=list)
    counts: int = 0

    def count(self) -> int:
        self.counts += 1
        return 0

    @property
    def instructions(self) -> int:
        return self.counts * STEP


async def _costs(path: Path, clock: ManualClock, stored: int) -> dict[str, Cost]:
    backend = SqliteBackend(path, clock=clock, inline=True, sync="off")
    await backend.prepare()
    for start in range(0, stored, FILL):
        numbers = range(start, min(start + FILL, stored))
        await backend.enqueue("mail", [_keyed(f"j{n:06}", f"k{n:06}") for n in numbers])
    await backend.cancel("mail", ["j000006"])
    costs = {name: Cost() for name in CALLS}
    for name, (job, told) in CALLS.items():
        cost = costs[name]

        def listen(connection: sqlite3.Connection, cost: Cost | None = cost) -> None:
            connection.set_trace_callback(None if cost is None else cost.statements.append)
            connection.set_progress_handler(None if cost is None else cost.count, STEP)

        await backend._write(lambda step, listen=listen: listen(step.connection))
        (answer,) = await backend.enqueue("mail", [job])
        await backend._write(lambda step, listen=listen: listen(step.connection, None))
        assert answer.acceptance is told, name
    await backend.close()
    return costs


@pytest.mark.promise("P-40", "P-41", "A-5", "A-6")
async def test_a_call_runs_as_many_statements_among_ten_thousand_jobs_as_among_ten(
    tmp_path: Path, clock: ManualClock
) -> None:
    few = await _costs(tmp_path / "few.db", clock, FEW)
    many = await _costs(tmp_path / "many.db", clock, MANY)

    for name in CALLS:
        assert 3 < len(many[name].statements) == len(few[name].statements) < 30, name
        assert many[name].instructions <= few[name].instructions * 1.2 + 50, name
    asked = {one for cost in many.values() for one in cost.statements if one.startswith(PLANNED)}
    assert len(asked) > 20
    with closing(sqlite3.connect(tmp_path / "many.db")) as connection:
        for statement in asked:
            steps = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {statement}")]
            assert not [step for step in steps if SCAN.match(step)], (statement, steps)
