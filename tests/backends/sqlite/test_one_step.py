"""Each write is one step: stopped at whichever of its statements, it has changed nothing."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from leasemq.backends.sqlite import SqliteBackend
from leasemq.backends.sqlite.connection import WritingConnection
from leasemq.backends.sqlite.statements import Statement
from leasemq.errors import CorruptRecord
from leasemq.protocol.model import Keep, Lease, State, Unique, UniqueMode
from leasemq.testing.conformance import builders
from leasemq.testing.conformance.builders import HOUR_MS, SECOND_MS, new_job
from leasemq.testing.conformance.queue_under_test import ALL, QueueUnderTest
from leasemq.testing.manual_clock import ManualClock

MOST_STATEMENTS = 100
BRIEFLY = Keep(result_ms=HOUR_MS, record_ms=SECOND_MS, dead_ms=SECOND_MS)
UNTIL_START = Unique(key="until it starts", mode=UniqueMode.REPLACE)
Act = Callable[[], Awaitable[object]]


@dataclass(slots=True)
class Scene:
    """A queue with a job in every state that an operation may find. Owner: the test."""

    queue: QueueUnderTest
    lease: Lease

    @classmethod
    async def of(cls, queue: QueueUnderTest) -> Scene:
        await queue.finish("done", keep=BRIEFLY, trail=9)
        await queue.die("dead", unique=Unique(key="free"), trail=9)
        await queue.die("old", keep=BRIEFLY)
        lease = await queue.start("j", unique=Unique(key="held"), trail=9)
        await queue.put(builders.with_parent("child", "j"))
        await queue.enqueue("later", delay_ms=SECOND_MS, trail=9)
        await queue.enqueue("stale", ttl_ms=SECOND_MS)
        await queue.enqueue("w", unique=UNTIL_START, trail=9)
        return cls(queue=queue, lease=lease)


def acts(scene: Scene) -> dict[str, Act]:
    """Everything that writes, as the scene allows it."""
    queue, lease = scene.queue, scene.lease
    backend, name = queue.backend, queue.name
    new = [
        builders.with_parent("n", "j", unique=Unique(key="new"), trail=9),
        new_job("m", delay_ms=SECOND_MS),
    ]
    notes = [builders.progress(lease), builders.log_line(lease), builders.checkpoint(lease)]
    settled = {
        kind: partial(backend.settle, name, [make(lease)]) for kind, make in builders.SETTLEMENTS.items()
    }
    return {
        **settled,
        "enqueue": lambda: queue.put(*new),
        "reuse": lambda: queue.enqueue("done", reuse=frozenset({State.COMPLETED})),
        "replace": lambda: queue.enqueue("other", unique=UNTIL_START, payload=b"newer"),
        "claim": lambda: queue.claim(2),
        "renew": lambda: queue.renew(lease),
        "note": lambda: backend.note(name, [*notes, builders.offer(lease)]),
        "cancel what waits": lambda: backend.cancel(name, ["w", "child", "later"]),
        "cancel what runs": lambda: queue.cancel("j"),
        "promote": lambda: backend.promote(name, ["later"]),
        "reprioritise": lambda: backend.reprioritise(name, ["w", "later"], 7),
        "reschedule": lambda: backend.reschedule(name, ["w", "later"], HOUR_MS),
        "replay": lambda: backend.replay(name, ["dead", "old"], 77),
        "remove what ended": lambda: queue.remove("done"),
        "remove what runs": lambda: queue.remove("j", force=True),
        "drain": lambda: backend.drain(name, ALL),
        "purge": lambda: backend.purge(name, frozenset({State.FAILED}), 0, ALL),
        "prune": lambda: backend.prune(name, ALL),
        "prune by count": lambda: backend.prune(name, ALL, newest=0),
        "advance": lambda: backend.advance(name, ALL),
        "pause": lambda: backend.pause(name),
        "release a dependant": lambda: _resolve(queue),
    }


async def _resolve(queue: QueueUnderTest) -> None:
    child = await queue.record("child")
    await queue.backend.resolve(child.ref, queue.name, "j", passes=True)


@dataclass(slots=True)
class Planted:
    """Stops the writer at one of its statements. Owner: the test."""

    at: int = 0  # 0: nowhere
    seen: int = 0
    commits: int = 0

    def count(self) -> None:
        self.seen += 1
        if self.seen == self.at:
            raise CorruptRecord("planted")


@contextmanager
def planted() -> Iterator[Planted]:
    """Count each statement that is run, and each commit."""
    fault = Planted()
    commit = WritingConnection.commit
    with pytest.MonkeyPatch.context() as patched:
        for way in ("rows", "row", "run", "many"):
            true = getattr(Statement, way)

            def run(statement: Statement, *values: Any, true: Any = true) -> Any:
                fault.count()
                return true(statement, *values)

            patched.setattr(Statement, way, run)

        def counted(connection: WritingConnection) -> None:
            fault.commits += 1
            commit(connection)

        patched.setattr(WritingConnection, "commit", counted)
        yield fault


def dumped(path: Path) -> list[str]:
    """All that is in the file."""
    with closing(sqlite3.connect(path)) as file:
        return list(file.iterdump())


NAMES = (
    *builders.SETTLEMENTS, "enqueue", "reuse", "replace", "claim", "renew", "note", "cancel what waits",
    "cancel what runs", "promote", "reprioritise", "reschedule", "replay", "remove what ended",
    "remove what runs", "drain", "purge", "prune", "prune by count", "advance", "pause",
    "release a dependant",
)  # fmt: skip


@pytest.mark.promise("P-01", "P-41", "P-53", "P-62", "A-22", "A-34", "E-35", "E-40")
@pytest.mark.parametrize("name", NAMES)
async def test_a_write_stopped_at_any_of_its_statements_has_changed_nothing(
    backend: SqliteBackend, clock: ManualClock, path: Path, name: str
) -> None:
    scene = await Scene.of(QueueUnderTest(backend=backend, clock=clock))
    clock.advance(SECOND_MS + 1)
    known = acts(scene)
    assert known.keys() == set(NAMES)
    act = known[name]
    before = await asyncio.to_thread(dumped, path)

    with planted() as fault:
        for at in range(1, MOST_STATEMENTS):
            fault.at, fault.seen, fault.commits = at, 0, 0
            try:
                await act()
            except CorruptRecord:
                assert await asyncio.to_thread(dumped, path) == before, f"stopped at statement {at}"
                continue
            break

    assert at > 2
    assert fault.commits == 1
    assert await asyncio.to_thread(dumped, path) != before
