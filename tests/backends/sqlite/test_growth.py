"""What an operation costs does not grow with what is stored."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from leasemq.backends.sqlite import SqliteBackend
from leasemq.protocol.insight import Filter
from leasemq.protocol.model import NewJob, State
from leasemq.testing.conformance import builders
from leasemq.testing.manual_clock import ManualClock

FEW, MANY = 500, 20_000
STEP = 10  # how many instructions of SQLite's machine pass between two counts
Act = Callable[[SqliteBackend], Awaitable[object]]


async def stored(path: Path, clock: ManualClock, count: int, fields: dict[str, Any]) -> SqliteBackend:
    """A store with many jobs in it; `fields` are those of every job."""
    backend = SqliteBackend(path, clock=clock, inline=True, sync="off")
    await backend.prepare()
    for start in range(0, count, 500):
        numbers = range(start, start + 500)
        jobs = [NewJob(id=f"j{number:06}", task="t", payload=b"p", **fields) for number in numbers]
        await backend.enqueue("mail", jobs)
    clock.advance(10)
    return backend


async def instructions(backend: SqliteBackend, act: Act) -> int:
    """How many instructions SQLite's machine runs for an operation, roughly."""
    counted = [0]

    def count() -> int:
        counted[0] += 1
        return 0

    await backend._write(lambda step: step.connection.set_progress_handler(count, STEP))
    await act(backend)
    await backend._write(lambda step: step.connection.set_progress_handler(None, STEP))
    await backend.close()
    return counted[0] * STEP


def claim(backend: SqliteBackend) -> Awaitable[object]:
    return backend.claim("mail", 10, 1_000, builders.claimant())


CASES: dict[str, tuple[Act, dict[str, Any]]] = {
    "claim": (claim, {}),
    "claim among scheduled ones": (claim, {"delay_ms": 3_600_000}),
    "advance": (lambda backend: backend.advance("mail", 10), {"delay_ms": 3_600_000}),
    "advance, all due": (lambda backend: backend.advance("mail", 10), {"delay_ms": 1}),
    "advance, all stale": (lambda backend: backend.advance("mail", 10), {"ttl_ms": 1}),
    "expired": (lambda backend: backend.expired("mail", 10), {}),
    "prune": (lambda backend: backend.prune("mail", 10), {}),
    "drain": (lambda backend: backend.drain("mail", 10), {}),
    "purge": (lambda backend: backend.purge("mail", frozenset({State.FAILED}), 0, 10), {}),
    "counts": (lambda backend: backend.counts("mail"), {}),
    "find": (lambda backend: backend.find("mail", Filter(), None, 10), {}),
    "find dead": (
        lambda backend: backend.find("mail", Filter(states=frozenset({State.FAILED})), None, 10),
        {},
    ),
    "find the oldest": (lambda backend: backend.find("mail", Filter(oldest_first=True), None, 10), {}),
    "drain what is delayed": (
        lambda backend: backend.drain("mail", 10, frozenset({State.SCHEDULED})),
        {"delay_ms": 3_600_000},
    ),
    "get": (lambda backend: backend.get("mail", ["j000001"]), {}),
    "cancel": (lambda backend: backend.cancel("mail", ["j000001"]), {}),
    "enqueue": (lambda backend: backend.enqueue("mail", [builders.new_job("new")]), {}),
}


@pytest.mark.promise("P-34", "P-43")
@pytest.mark.parametrize("name", CASES)
async def test_the_cost_does_not_grow_with_what_is_stored(
    tmp_path: Path, clock: ManualClock, name: str
) -> None:
    act, fields = CASES[name]

    few = await instructions(await stored(tmp_path / "few.db", clock, FEW, fields), act)
    many = await instructions(await stored(tmp_path / "many.db", clock, MANY, fields), act)

    assert many <= few * 1.2 + 200, f"{name}: {few} instructions among {FEW}, {many} among {MANY}"


PAGES: dict[str, Filter] = {
    "newest first": Filter(),
    "oldest first": Filter(oldest_first=True),
    "by state": Filter(states=frozenset({State.WAITING})),
    "by age": Filter(older_than_ms=0),
}


@pytest.mark.promise("A-35", "E-55")
async def test_a_late_page_costs_no_more_than_the_first(tmp_path: Path, clock: ManualClock) -> None:
    await (await stored(tmp_path / "many.db", clock, MANY, {})).close()

    async def cost(where: Filter, cursor: str | None) -> int:
        backend = SqliteBackend(tmp_path / "many.db", clock=clock, inline=True, sync="off")
        await backend.prepare()
        return await instructions(backend, lambda backend: backend.find("mail", where, cursor, 10))

    for name, where in PAGES.items():
        first, late = await cost(where, None), await cost(where, str(MANY // 2))  # a cursor is a key
        assert late <= first * 1.2 + 200, f"{name}: {first} instructions at first, {late} late"
