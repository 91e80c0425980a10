"""Every column of a job, damaged in every state the job can be in: nobody else is stopped by it.

What is asked about the damaged job itself may be answered with a `CorruptRecord`; what is asked about its
queue must be answered, and must reach the other jobs.
"""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import pytest

from leasemq.backends.sqlite import SqliteBackend
from leasemq.errors import BackendUnavailable, LeaseMQError
from leasemq.protocol.insight import Filter
from leasemq.protocol.model import (
    TERMINAL,
    Lease,
    OnParentFailure,
    Ref,
    Settled,
    State,
    Unique,
    UniqueMode,
)
from leasemq.testing.conformance import builders
from leasemq.testing.manual_clock import ManualClock

T = TypeVar("T")
Values = Mapping[str, Sequence[object]]  # by the type of the column

TABLES = ("job", "body", "value", "attempt", "refused", "log", "alias", "parent", "dependant")
STAGES = ("waiting", "active", "lapsed")
QUIET_STAGES = ("scheduled", "blocked", "overdue", "ended")
BYTES = b"\xff\x00"
COMMON = {"TEXT": ("x", BYTES), "INTEGER": ("x",), "BLOB": ("x",)}
RARE = {"TEXT": (None,), "INTEGER": (BYTES, None, -5, 2.5), "BLOB": (None, 17)}
QUEUE, BAD, GOOD = "mail", "bad", "good"
LEASE_MS, DAY_MS = 30_000, 86_400_000
WHOSE = {"job": "id = 'bad'", "alias": "id = 'alias'"}  # in the other tables: by the job's key
KEY = Unique(key="k")


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """A store whose job `bad` is at some stage of its life, and what is held of it."""

    name: str
    path: Path
    now_ms: int
    leases: tuple[Lease, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Damage:
    """One value of the job `bad` that is not what was stored."""

    table: str
    column: str
    value: object

    def plant(self, path: Path) -> bool:
        """Write it behind the backend's back; answers whether the file took it."""
        whose = WHOSE.get(self.table, "job = (SELECT key FROM leasemq_job WHERE id = 'bad')")
        change = f"UPDATE leasemq_{self.table} SET {self.column} = ? WHERE {whose}"  # noqa: S608 - from our own schema
        with closing(sqlite3.connect(path)) as file, suppress(sqlite3.IntegrityError), file:
            return file.execute(change, (self.value,)).rowcount > 0
        return False


@asynccontextmanager
async def opened(path: Path, clock: ManualClock) -> AsyncIterator[SqliteBackend]:
    """A backend without threads, which waits for no disk."""
    backend = SqliteBackend(path, inline=True, sync="off", clock=clock)
    await backend.prepare()
    yield backend
    await backend.close()


async def staged(name: str, path: Path) -> Stage:
    """Make the store of one stage: `bad` has a past, a unique key, an alias, a dependant; `good` waits."""
    clock = ManualClock()
    async with opened(path, clock) as backend:
        if name == "blocked":
            await backend.enqueue(QUEUE, [builders.with_parent(BAD, "p", unique=KEY, ttl_ms=DAY_MS)])
        else:
            await _with_a_past(backend, name)
        await backend.attach(QUEUE, BAD, Ref(queue=QUEUE, id="child", generation=1), OnParentFailure.FAIL)
        await backend.enqueue(QUEUE, [builders.with_parent("child", BAD), builders.new_job(GOOD)])
        merged = Unique(key="k", mode=UniqueMode.REPLACE)
        await backend.enqueue(QUEUE, [builders.new_job("alias", unique=merged)])
        leases: tuple[Lease, ...] = ()
        if name in ("active", "lapsed", "ended"):
            leases = tuple((await backend.claim(QUEUE, 2, LEASE_MS, builders.claimant())).leases)
        if name == "ended":
            await backend.settle(QUEUE, [builders.fail(lease) for lease in leases if lease.ref.id == BAD])
        if name in ("lapsed", "overdue"):
            clock.advance(2 * LEASE_MS)
    return Stage(name=name, path=path, now_ms=clock(), leases=leases)


async def _with_a_past(backend: SqliteBackend, name: str) -> None:
    ttl_ms = LEASE_MS if name == "overdue" else DAY_MS
    await backend.enqueue(QUEUE, [builders.new_job(BAD, unique=KEY, ttl_ms=ttl_ms)])
    lease = (await backend.claim(QUEUE, 1, LEASE_MS, builders.claimant())).leases[0]
    await backend.note(QUEUE, [builders.log_line(lease), builders.checkpoint(lease)])
    await backend.settle(QUEUE, [builders.retry(lease, DAY_MS // 2 if name == "scheduled" else 0)])
    backend.renewer().renew(QUEUE, [(BAD, lease.fence)], LEASE_MS)  # refused, and noted


async def about_bad(answer: Awaitable[T]) -> T | None:
    """What is said of the damaged job may be that it cannot be read, in our own words."""
    try:
        return await answer
    except BackendUnavailable:
        raise
    except LeaseMQError:
        return None


async def lived_through(stage: Stage, damage: Damage, path: Path) -> None:
    """Have everything happen to the queue that can happen to it."""
    shutil.copy(stage.path, path)
    if not damage.plant(path):
        return
    clock = ManualClock(stage.now_ms)
    async with opened(path, clock) as backend:
        await _looked_at(backend)
        if stage.name == "active":
            await _settled(backend, stage.leases)
        if stage.name == "lapsed":
            await _recovered(backend, damage)
        else:
            await backend.advance(QUEUE, 100)
        await _claimed(backend, stage)
        await _operated_on(backend)
        clock.advance(100 * DAY_MS)
        await backend.advance(QUEUE, 100)
        await backend.prune(QUEUE, 100)
        await backend.purge(QUEUE, TERMINAL, 0, 100)
        await _looked_at(backend)
        await about_bad(backend.remove(QUEUE, [BAD], force=True))
        await backend.obliterate(QUEUE, force=True)


async def _looked_at(backend: SqliteBackend) -> None:
    await backend.counts(QUEUE)
    await backend.find(QUEUE, Filter(), None, 100)
    await backend.find(QUEUE, Filter(states=frozenset({State.WAITING, State.ACTIVE})), None, 100)
    await backend.outbox(QUEUE, 100)
    await backend.events(QUEUE, "", 1_000)
    await backend.claimed_by(QUEUE, "A-1")
    await about_bad(backend.get(QUEUE, [BAD]))


async def _settled(backend: SqliteBackend, leases: tuple[Lease, ...]) -> None:
    """A worker goes on with what it holds, and settles it all in one call."""
    backend.renewer().renew(QUEUE, [(lease.ref.id, lease.fence) for lease in leases], LEASE_MS)
    await backend.note(QUEUE, [builders.progress(lease) for lease in leases])
    answers = await backend.settle(QUEUE, [builders.complete(lease) for lease in leases])
    assert answers[[lease.ref.id for lease in leases].index(GOOD)] is Settled.APPLIED


async def _recovered(backend: SqliteBackend, damage: Damage) -> None:
    """A sweep settles what it is handed; what it cannot be handed, the store ends itself."""
    leases = await backend.expired(QUEUE, 100)
    assert GOOD in {lease.ref.id for lease in leases}
    await backend.settle(QUEUE, [builders.stall(lease) for lease in leases])
    await backend.advance(QUEUE, 100)
    if (damage.table, damage.column) not in {("job", "state"), ("job", "queue")}:
        assert (await backend.counts(QUEUE)).active == 0


async def _claimed(backend: SqliteBackend, stage: Stage) -> None:
    claimed = await backend.claim(QUEUE, 10, LEASE_MS, builders.claimant("B"))
    if stage.name in ("waiting", "scheduled", "blocked", "lapsed", "overdue"):
        assert GOOD in {lease.ref.id for lease in claimed.leases}
    await backend.settle(QUEUE, [builders.complete(lease) for lease in claimed.leases])


async def _operated_on(backend: SqliteBackend) -> None:
    await about_bad(backend.cancel(QUEUE, [BAD]))
    await about_bad(backend.replay(QUEUE, [BAD], 5))
    await about_bad(backend.promote(QUEUE, [BAD]))
    late = Ref(queue=QUEUE, id="late", generation=1)
    await about_bad(backend.attach(QUEUE, BAD, late, OnParentFailure.FAIL))
    child = Ref(queue=QUEUE, id=BAD, generation=1)
    await about_bad(backend.resolve(child, QUEUE, "p", passes=True))
    for job in (
        builders.new_job(BAD),
        builders.new_job("alias"),
        builders.new_job("other", unique=Unique(key="k", mode=UniqueMode.DEBOUNCE, window_ms=1)),
    ):
        await about_bad(backend.enqueue(QUEUE, [job]))


def damages(path: Path, values: Values) -> Iterator[Damage]:
    """Each column that is a job's own, with each of the values for its type in it."""
    with closing(sqlite3.connect(path)) as file:
        for table in TABLES:
            own_key = "key" if table == "job" else "job"
            columns = file.execute(
                "SELECT name, type FROM pragma_table_info(?)", (f"leasemq_{table}",)
            ).fetchall()
            for column, kind in columns:
                if column == own_key and table != "alias":
                    continue
                for value in values[kind]:
                    yield Damage(table=table, column=column, value=value)


async def all_lived_through(name: str, values: Values, folder: Path) -> None:
    stage = await staged(name, folder / "stage.db")
    for number, damage in enumerate(damages(stage.path, values)):
        try:
            await lived_through(stage, damage, folder / f"{number}.db")
        except Exception as error:
            error.add_note(f"{name}: {damage}")
            raise


@pytest.mark.promise("P-99", "P-82", "P-34")
@pytest.mark.parametrize(
    "name", [*STAGES, *(pytest.param(name, marks=pytest.mark.slow) for name in QUIET_STAGES)]
)
async def test_no_column_of_a_job_stops_the_others_when_it_has_another_type(
    name: str, tmp_path: Path
) -> None:
    await all_lived_through(name, COMMON, tmp_path)


@pytest.mark.slow
@pytest.mark.promise("P-99", "P-82", "P-34")
@pytest.mark.parametrize("name", [*STAGES, *QUIET_STAGES])
async def test_no_column_of_a_job_stops_the_others_when_its_value_is_impossible(
    name: str, tmp_path: Path
) -> None:
    await all_lived_through(name, RARE, tmp_path)
