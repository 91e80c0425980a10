"""How the server carries out every statement of every operation, with many stored jobs: by index, always."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from leasemq.backends.postgres import PostgresBackend
from leasemq.errors import CursorExpired
from leasemq.protocol.insight import BEGINNING, Filter, Schedule
from leasemq.protocol.model import DEAD, NOT_STARTED, TERMINAL, Claimant, OnParentFailure, Ref, State
from leasemq.testing.conformance import builders
from leasemq.testing.conformance.builders import HOUR_MS, LEASE_MS, new_job
from leasemq.testing.manual_clock import ManualClock
from leasemq.testing.player import Player
from leasemq.testing.scripts import script
from tests.backends.postgres.conftest import placed, settings_for
from tests.servers import PostgresServer

STOCK = "stock"
SCHEMA = "stocked"
SCRIPTS = 15
OPERATIONS = {
    "enqueue", "claim", "claimed_by", "settle", "exchange", "note", "advance", "expired", "prune", "outbox",
    "outbox_done", "attach", "resolve", "renew", "cancel", "pause", "resume", "promote", "reprioritise",
    "reschedule", "replay", "remove", "drain", "purge", "obliterate", "clock", "get", "slips", "find",
    "counts", "standing", "queues", "events", "trail", "announce", "retire", "workers", "put_schedule",
    "delete_schedule", "schedules", "advance_schedule",
}  # fmt: skip
EXPLAINING = "-c auto_explain.log_min_duration=0"
OPTIONS = {
    "shared_preload_libraries": "auto_explain",
    "auto_explain.log_min_duration": "-1",
    "auto_explain.log_nested_statements": "on",
    "auto_explain.log_format": "json",
    "shared_buffers": "256MB",
    "max_wal_size": "4GB",
    "autovacuum": "off",
}
SMALL = {"queue", "schedule", "worker", "store", "migration", "chore"}  # which are read as a whole
Plan = dict[str, Any]  # Any: as the server's JSON has it


@pytest.fixture
def server(tmp_path: Path) -> Iterator[PostgresServer]:
    """A server that can explain what it does."""
    with PostgresServer(tmp_path, options=OPTIONS) as started:
        yield started


@pytest.mark.promise("P-94")
@pytest.mark.parametrize(
    ("jobs", "is_analyzed"),
    [
        pytest.param(5_000, True, marks=pytest.mark.slow),
        pytest.param(1_000_000, True, marks=[pytest.mark.long, pytest.mark.timeout(1_800)]),
        pytest.param(1_000_000, False, marks=[pytest.mark.long, pytest.mark.timeout(1_800)]),
    ],
)
async def test_every_statement_of_every_operation_goes_by_an_index(
    server: PostgresServer, jobs: int, is_analyzed: bool
) -> None:
    clock = ManualClock()
    await _stock(server, clock, jobs, is_analyzed=is_analyzed)
    settings = settings_for(server.url, SCHEMA, clock=clock)
    backend = PostgresBackend(
        replace(settings, conninfo=make_conninfo(settings.conninfo, options=EXPLAINING))
    )
    await _do_everything(backend, clock, jobs)
    player = Player(backend, clock)
    for seed in range(SCRIPTS):
        for call in script(seed):
            await player.play(call)
    await backend.close()

    plans = _plans(server.log.read_text(encoding="utf-8"))

    assert sorted({fault for plan in plans for fault in _faults(plan)}) == []
    assert OPERATIONS - _called(plans) == set()


async def _stock(server: PostgresServer, clock: ManualClock, jobs: int, *, is_analyzed: bool) -> None:
    """Make a store with so many jobs."""
    first = PostgresBackend(settings_for(server.url, SCHEMA, clock=clock))
    await first.prepare()
    await first.close()
    text = Path(__file__).with_name("stock.sql").read_text(encoding="utf-8")
    text = text.replace("{jobs}", str(jobs)).replace("{now}", str(clock()))

    def fill() -> None:
        with psycopg.connect(server.url, autocommit=True) as connection:
            connection.execute(placed(text, SCHEMA))
            if is_analyzed:
                connection.execute("ANALYZE")

    await asyncio.to_thread(fill)


async def _do_everything(backend: PostgresBackend, clock: ManualClock, jobs: int) -> None:
    await _read_everything(backend)
    claimant = Claimant(worker="w", incarnation="w-2", request_id="nonce", takes_suspect=False)
    for _ in range(3):
        claimed = await backend.claim(STOCK, 100, LEASE_MS, claimant)
    leases = claimed.leases
    assert len(leases) == 100
    await backend.claimed_by(STOCK, "w-2")
    await backend.note(STOCK, [builders.progress(leases[0]), builders.log_line(leases[1])])
    await backend.settle(STOCK, [builders.complete(lease) for lease in leases[:50]])
    await backend.cancel(STOCK, [leases[50].ref.id, "job-1", "job-4", "job-6", "job-7", "nobody"])
    clock.advance(LEASE_MS + 1)
    expired = await backend.expired(STOCK, 20)
    await backend.settle(STOCK, [builders.stall(lease) for lease in expired])
    again = Claimant(worker="w", incarnation="w-2", request_id="alone", takes_suspect=True)
    await backend.exchange(STOCK, [builders.release(leases[80])], 10, LEASE_MS, again)
    ids = [f"job-{number}" for number in range(100, 200)]
    await backend.enqueue(STOCK, [new_job(f"new-{number}") for number in range(100)])
    await backend.enqueue(STOCK, [new_job(id_, reuse=frozenset(TERMINAL)) for id_ in ids])
    await backend.promote(STOCK, ids)
    await backend.reprioritise(STOCK, ids, 7)
    await backend.reschedule(STOCK, ids, HOUR_MS)
    await backend.replay(STOCK, [f"job-{number}" for number in range(200, 300)], 1)
    await backend.attach(STOCK, "job-10", Ref(queue="q", id="c", generation=1), OnParentFailure.FAIL)
    for passes in (True, False):
        child = Ref(queue=STOCK, id=f"job-{16 + 10 * passes}", generation=1)
        await backend.resolve(child, "elsewhere", "p", passes=passes)
    await backend.remove(STOCK, ["job-30", "job-31", "gone-40"], force=True)
    await backend.drain(STOCK, 100)
    await backend.drain(STOCK, 100, frozenset({State.WAITING}))
    await backend.drain(STOCK, 100, frozenset({State.SCHEDULED}))
    await backend.purge(STOCK, frozenset(TERMINAL), 0, 100)
    await backend.pause(STOCK)
    await backend.resume(STOCK)
    await backend.outbox_done(STOCK, [entry.id for entry in await backend.outbox(STOCK, 100)])
    await backend.put_schedule(Schedule(name="s", queue=STOCK, spec=b"", cursor_ms=0))
    await backend.advance_schedule("s", 0, 1, [new_job("tick")])
    clock.advance(3 * HOUR_MS)
    await backend.advance(STOCK, 100)
    clock.advance(26 * HOUR_MS)
    await backend.prune(STOCK, 100)
    await backend.prune(STOCK, 100, newest=jobs // 20)


async def _read_everything(backend: PostgresBackend) -> None:
    await backend.counts(STOCK)
    await backend.queues()
    await backend.workers()
    await backend.get(STOCK, ["job-1", "job-7", "nobody"])
    await backend.slips(STOCK, [("gone-10", 0), ("gone-20", 1)])
    for id_ in ("job-1", "job-4", "job-9", "nobody"):
        await backend.standing(STOCK, id_)
        await backend.trail(STOCK, id_, None, None, 10)
    for where in (
        Filter(),
        Filter(states=frozenset(DEAD)),
        Filter(states=NOT_STARTED, oldest_first=True),
        Filter(task="tests.send", id_prefix="job-1", reason="dead"),
        Filter(older_than_ms=0, newer_than_ms=HOUR_MS),
    ):
        page = await backend.find(STOCK, where, None, 100)
        await backend.find(STOCK, where, page.cursor, 100)
    for cursor in (BEGINNING, "", None):
        with suppress(CursorExpired):
            await backend.events(STOCK, cursor, 100)


def _plans(log: str) -> list[Plan]:
    """The plans in a server's log."""
    found = re.findall(r"duration: [0-9.]+ ms  plan:\n((?:\t.*\n)+)", log)
    return [json.loads(text.replace("\n\t", "\n")) for text in found]


def _called(plans: list[Plan]) -> set[str]:
    """Which functions' calls are among them."""
    return {name for plan in plans for name in re.findall(r'"([a-z_]+)_[0-9a-f]{10}"', plan["Query Text"])}


def _faults(plan: Plan) -> Iterator[str]:
    """What of a plan reads more of a table than it is asked for."""
    for node in _nodes(plan["Plan"]):
        table, kind = node.get("Relation Name"), node["Node Type"]
        if table is None or table in SMALL or node.get("Schema", SCHEMA) != SCHEMA:
            continue
        is_read_by_index = kind in ("Index Scan", "Index Only Scan") and "Index Cond" in node
        if kind not in ("ModifyTable", "LockRows", "Bitmap Heap Scan") and not is_read_by_index:
            yield f"{kind} on {table} in {plan['Query Text']}"


def _nodes(node: Plan) -> Iterator[Plan]:
    yield node
    for child in node.get("Plans", ()):
        yield from _nodes(child)
