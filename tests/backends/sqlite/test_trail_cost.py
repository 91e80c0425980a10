"""What a job's own trail costs the file: nothing unless it was asked for, and bounded rows if it was."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from leasemq.backends.sqlite import SqliteBackend
from leasemq.errors import CorruptRecord
from leasemq.protocol.insight import Change
from leasemq.protocol.model import Keep, Noted, Settled
from leasemq.testing.conformance import builders
from leasemq.testing.conformance.queue_under_test import ALL, QueueUnderTest
from leasemq.testing.manual_clock import ManualClock


@pytest.fixture
def statements(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Whatever every connection opened from now on runs."""
    connect: Callable[..., sqlite3.Connection] = sqlite3.connect
    ran: list[str] = []

    def traced(*args: Any, **options: Any) -> sqlite3.Connection:  # Any: sqlite3.connect's own arguments
        connection = connect(*args, **options)
        connection.set_trace_callback(ran.append)
        return connection

    monkeypatch.setattr(sqlite3, "connect", traced)
    return ran


async def live_a_life(queue: QueueUnderTest, entries: int, *, keep: Keep) -> None:
    """One job from its enqueue through two attempts, with notes, to its end and its removal."""
    lease = await queue.start(trail=entries, keep=keep)
    await queue.note(builders.progress(lease, number=1))
    await queue.note(builders.log_line(lease, number=2))
    await queue.settle(builders.retry(lease))
    await queue.settle(builders.fail(await queue.lease()))
    await queue.replay()
    await queue.settle(builders.complete(await queue.lease()))
    if keep.record_ms:
        await queue.remove()


@pytest.mark.promise("E-37")
async def test_a_job_without_a_trail_never_touches_the_trails_table(
    tmp_path: Path, statements: list[str]
) -> None:
    backend = SqliteBackend(tmp_path / "jobs.db", clock=ManualClock(), sync="normal")
    await backend.prepare()
    statements.clear()
    queue = QueueUnderTest(backend=backend, clock=ManualClock())

    await live_a_life(queue, 0, keep=Keep())
    await live_a_life(queue, 0, keep=Keep(result_ms=0, record_ms=0))
    without = [text for text in statements if "leasemq_trail" in text]
    await live_a_life(queue, 5, keep=Keep())
    with_one = [text for text in statements if "leasemq_trail" in text]
    await backend.close()

    assert (without, bool(with_one)) == ([], True)


@pytest.mark.promise("E-37", "E-38", "P-64")
async def test_no_more_rows_are_kept_than_were_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"
    backend = SqliteBackend(path, clock=ManualClock(), sync="normal")
    await backend.prepare()
    queue = QueueUnderTest(backend=backend, clock=ManualClock())
    lease = await queue.start(trail=3)

    await backend.note(queue.name, [builders.log_line(lease) for _ in range(200)])

    page = await backend.trail(queue.name, "j", None, None, ALL)
    await backend.close()
    with closing(sqlite3.connect(path)) as file:
        (rows,) = file.execute("SELECT count(*) FROM leasemq_trail").fetchone()
    assert page is not None
    assert (rows, len(page.entries), page.entries[-1].number) == (3, 3, 202)


@pytest.mark.promise("P-99", "E-38")
async def test_an_entry_that_cannot_be_read_is_no_missing_one(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"
    backend = SqliteBackend(path, clock=ManualClock(), sync="normal")
    await backend.prepare()
    queue = QueueUnderTest(backend=backend, clock=ManualClock())
    await queue.start(trail=3)
    for damage in ("kind = 'sideways'", "at_ms = 'soon'", "state = NULL", "value = 'text'"):
        with closing(sqlite3.connect(path)) as file, file:
            (was,) = file.execute("SELECT * FROM leasemq_trail WHERE number = 1").fetchall()
            file.execute(f"UPDATE leasemq_trail SET {damage} WHERE number = 1")  # noqa: S608  of this test

        with pytest.raises(CorruptRecord, match="'j'"):
            await backend.trail(queue.name, "j", None, None, ALL)
        with closing(sqlite3.connect(path)) as file, file:
            file.execute("DELETE FROM leasemq_trail WHERE number = 1")
            file.execute("INSERT INTO leasemq_trail VALUES (?, ?, ?, ?, ?, ?, ?)", was)
    assert await backend.trail(queue.name, "j", None, None, ALL) is not None
    await backend.close()


@pytest.mark.promise("P-99", "E-37")
@pytest.mark.parametrize("damage", ["trail = 'x'", "trail = x'ff'", "noted = 'x'", "trail = -1"])
async def test_damage_to_what_a_trail_goes_by_stops_nobody_else(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "jobs.db"
    backend = SqliteBackend(path, clock=ManualClock(), sync="normal")
    await backend.prepare()
    queue = QueueUnderTest(backend=backend, clock=ManualClock())
    running = await queue.start("running", trail=3)
    await queue.enqueue("waiting", "fine", trail=3)
    with closing(sqlite3.connect(path)) as file, file:
        file.execute(f"UPDATE leasemq_job SET {damage} WHERE id <> 'fine'")  # noqa: S608  of this test

    notes = [builders.progress(running, number=1), builders.log_line(running, number=2)]
    answers = [*await backend.note(queue.name, notes), *await backend.note(queue.name, notes)]
    settled = await queue.settle(builders.complete(running))
    claimed = await queue.claim(5)
    removed = [await queue.remove(job_id, force=True) for job_id in ("running", "waiting")]
    page = await backend.trail(queue.name, "fine", None, None, ALL)
    await backend.close()

    assert (set(answers), settled, set(removed)) == ({Noted.HELD}, Settled.APPLIED, {Change.DONE})
    assert "fine" in [lease.ref.id for lease in claimed.leases]
    assert page is not None
    assert len(page.entries) == 2
