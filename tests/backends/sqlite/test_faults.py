"""What the file, the disk and other programs can do to us, and what the caller is told of it."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from leasemq.backends.sqlite import SqliteBackend
from leasemq.backends.sqlite.connection import WritingConnection
from leasemq.backends.sqlite.faults import translated
from leasemq.clock import boot_ms
from leasemq.errors import (
    BackendFull,
    BackendUnavailable,
    CorruptRecord,
    IndeterminateWrite,
    LeaseMQError,
    Unsupported,
)
from leasemq.testing.conformance import builders
from tests.backends.sqlite.conftest import Open, Peek
from tests.end_to_end.outages import marked_read_only

FILLING = """
import asyncio, resource, sys
from leasemq.backends.sqlite import SqliteBackend
from leasemq.errors import LeaseMQError
from leasemq.protocol.model import NewJob

async def main() -> None:
    backend = SqliteBackend(sys.argv[1], sync="normal")
    await backend.prepare()
    resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, resource.RLIM_INFINITY))
    for number in range(200):
        try:
            await backend.enqueue("mail", [NewJob(id=f"j{number}", task="t", payload=bytes(8_000))])
        except LeaseMQError as error:
            print(type(error).__name__, number)
            break
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    answers = await backend.enqueue("mail", [NewJob(id=f"j{number}", task="t", payload=bytes(8_000))])
    print(answers[0].acceptance, (await backend.counts("mail")).accepted)
    await backend.close()

asyncio.run(main())
"""


@contextmanager
def locked(path: Path) -> Iterator[sqlite3.Connection]:
    """Another program that holds the database's lock."""
    with closing(sqlite3.connect(path, isolation_level=None, check_same_thread=False)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield other
        if other.in_transaction:
            other.execute("ROLLBACK")


def failure(code: int) -> sqlite3.OperationalError:
    """An error as SQLite would raise it."""
    error = sqlite3.OperationalError("planted")
    error.sqlite_errorcode = code
    return error


@pytest.mark.promise("P-04", "P-93", "B24")
async def test_a_lock_held_too_long_is_told_and_nothing_is_written(opened: Open, path: Path) -> None:
    backend = await opened(busy_timeout_ms=200)
    started_ms = boot_ms()
    with locked(path):
        with pytest.raises(BackendUnavailable, match="stayed locked"):
            await backend.enqueue("mail", [builders.new_job("a")])
        assert boot_ms() - started_ms < 3_000
        assert (await backend.counts("mail")).accepted == 0

    (answer,) = await backend.enqueue("mail", [builders.new_job("a")])
    assert answer.created


@pytest.mark.promise("P-93", "B24")
async def test_a_lock_held_for_less_than_the_patience_only_delays(backend: SqliteBackend, path: Path) -> None:
    with locked(path) as other:
        call = asyncio.create_task(backend.enqueue("mail", [builders.new_job("a")]))
        done, _ = await asyncio.wait([call], timeout=0.2)
        assert not done
        other.execute("ROLLBACK")

    assert (await call)[0].created


@pytest.mark.promise("B24")
async def test_no_request_waits_for_a_lock_longer_than_its_own_patience(opened: Open, path: Path) -> None:
    backend = await opened(busy_timeout_ms=300)
    with locked(path):
        first = asyncio.create_task(backend.enqueue("mail", [builders.new_job("a")]))
        await asyncio.wait([first], timeout=0.2)  # the second comes while the first still waits
        started_ms = boot_ms()
        with pytest.raises(BackendUnavailable):
            await backend.enqueue("mail", [builders.new_job("b")])
        waited_ms = boot_ms() - started_ms
        with pytest.raises(BackendUnavailable):
            await first

    assert 300 <= waited_ms < 900


@pytest.mark.promise("P-93")
async def test_a_renewal_that_cannot_get_through_says_so(opened: Open, path: Path) -> None:
    backend = await opened(busy_timeout_ms=100)
    await backend.enqueue("mail", [builders.new_job("a")])
    (lease,) = (await backend.claim("mail", 1, 1_000, builders.claimant())).leases
    renewer = backend.renewer()
    with locked(path), pytest.raises(BackendUnavailable):
        await asyncio.to_thread(renewer.renew, "mail", [("a", lease.fence)], 1_000)

    assert await asyncio.to_thread(renewer.renew, "mail", [("a", lease.fence)], 1_000) == ("held",)
    renewer.close()


@pytest.mark.promise("P-04")
async def test_a_full_disk_is_told_and_the_backend_works_again_afterwards(backend: SqliteBackend) -> None:
    await backend._write(lambda step: step.connection.execute("PRAGMA max_page_count = 60").fetchall())

    with pytest.raises(BackendFull, match="free some"):
        await backend.enqueue("mail", [builders.new_job("a", payload=bytes(1_000_000))])

    assert (await backend.counts("mail")).accepted == 0
    await backend._write(lambda step: step.connection.execute("PRAGMA max_page_count = 100000").fetchall())
    (answer,) = await backend.enqueue("mail", [builders.new_job("a", payload=bytes(1_000_000))])
    assert answer.created


@pytest.mark.promise("P-19", "P-82", "P-98")
async def test_a_file_that_was_read_only_for_a_while_is_written_again(
    backend: SqliteBackend, path: Path
) -> None:
    """A connection that has met such a file would refuse every write for as long as it is open."""
    await backend.enqueue("q", [builders.new_job("before")])
    with marked_read_only(path):
        for _ in range(2):
            with pytest.raises(BackendUnavailable, match="read-only"):
                await backend.enqueue("q", [builders.new_job("during")])
    await backend.enqueue("q", [builders.new_job("after")])
    assert [record is not None for record in await backend.get("q", ["before", "during", "after"])] == [
        True,
        False,
        True,
    ]


@pytest.mark.promise("P-03", "P-04")
async def test_a_disk_that_fails_in_a_commit_leaves_a_doubt_that_a_repeat_resolves(path: Path) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", FILLING, str(path), stdout=asyncio.subprocess.PIPE
    )
    out, _ = await asyncio.wait_for(process.communicate(), 60)

    (name, number), (acceptance, accepted) = (line.split() for line in out.decode().splitlines())
    assert process.returncode == 0
    assert name == "IndeterminateWrite"
    assert acceptance in {"created", "existing"}
    assert int(accepted) == int(number) + 1


@pytest.mark.promise("P-04")
@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (sqlite3.SQLITE_FULL, BackendFull),
        (sqlite3.SQLITE_IOERR_FSYNC, IndeterminateWrite),
        (sqlite3.SQLITE_IOERR_WRITE, IndeterminateWrite),
    ],
)
async def test_whoever_shares_a_commit_that_fails_is_told(
    backend: SqliteBackend, monkeypatch: pytest.MonkeyPatch, code: int, expected: type[LeaseMQError]
) -> None:
    def fail(connection: WritingConnection) -> None:
        raise failure(code)

    with monkeypatch.context() as planted:
        planted.setattr(WritingConnection, "commit", fail)
        calls = [backend.enqueue("mail", [builders.new_job(name)]) for name in "abc"]
        answers = await asyncio.gather(*calls, return_exceptions=True)

    assert [type(answer) for answer in answers] == [expected] * 3
    assert (await backend.counts("mail")).accepted == 0
    assert (await backend.enqueue("mail", [builders.new_job("a")]))[0].created


@pytest.mark.promise("P-04")
@pytest.mark.parametrize(
    ("code", "expected", "remedy"),
    [
        (sqlite3.SQLITE_IOERR_READ, BackendUnavailable, "nothing was written"),
        (sqlite3.SQLITE_READONLY_DIRECTORY, BackendUnavailable, "make file and folder writable"),
        (sqlite3.SQLITE_CANTOPEN, BackendUnavailable, "folder"),
        (sqlite3.SQLITE_BUSY_SNAPSHOT, BackendUnavailable, "locked"),
        (sqlite3.SQLITE_CORRUPT, CorruptRecord, "restore it"),
        (sqlite3.SQLITE_NOTADB, Unsupported, "name another file"),
        (sqlite3.SQLITE_CONSTRAINT, BackendUnavailable, "nothing was written"),
    ],
)
def test_every_fault_of_the_file_names_it_and_the_remedy(
    code: int, expected: type[LeaseMQError], remedy: str
) -> None:
    told = translated(failure(code), "/data/jobs.db")

    assert type(told) is expected
    assert "/data/jobs.db" in str(told)
    assert remedy in str(told)


async def test_a_file_of_another_kind_is_refused_and_left_as_it_is(path: Path) -> None:
    path.write_bytes(b"this is a letter, not a database" * 100)

    with pytest.raises(Unsupported, match=r"jobs\.db.*not an SQLite database"):
        await SqliteBackend(path).prepare()

    assert path.read_bytes().startswith(b"this is a letter")


async def test_a_missing_folder_is_told(tmp_path: Path) -> None:
    with pytest.raises(BackendUnavailable, match="is it there, in its folder"):
        await SqliteBackend(tmp_path / "nowhere" / "jobs.db").prepare()


@pytest.mark.promise("P-82", "P-93")
async def test_a_file_that_is_gone_for_a_while_is_an_outage_and_not_made_anew(
    opened: Open, path: Path, tmp_path: Path
) -> None:
    await (await opened()).enqueue("mail", [builders.new_job("a")])
    backend = await opened()  # whose connections are opened when they are first used
    away = tmp_path / "away"
    away.mkdir()
    for file in tmp_path.glob("jobs.db*"):
        file.rename(away / file.name)

    with pytest.raises(BackendUnavailable, match="is it there"):
        await backend.enqueue("mail", [builders.new_job("b")])
    with pytest.raises(BackendUnavailable, match="is it there"):
        await backend.counts("mail")
    assert not path.exists()

    for file in away.iterdir():
        file.rename(path.with_name(file.name))
    await backend.enqueue("mail", [builders.new_job("b")])
    assert (await backend.counts("mail")).accepted == 2


@pytest.mark.promise("P-99")
async def test_a_damaged_file_is_told_and_not_read_as_empty(opened: Open, path: Path, peek: Peek) -> None:
    backend = await opened()
    await backend.enqueue("mail", [builders.new_job(f"j{number}") for number in range(500)])
    await backend.close()
    await peek("PRAGMA wal_checkpoint(TRUNCATE)")
    (root,) = (await peek("SELECT rootpage FROM sqlite_master WHERE name = 'leasemq_job'"))[0]
    with path.open("r+b") as file:
        file.seek((root - 1) * 4_096)
        file.write(os.urandom(4_096))
    await backend.prepare()

    with pytest.raises(CorruptRecord, match=r"jobs\.db.*damaged"):
        await backend.claim("mail", 10, 1_000, builders.claimant())
    with pytest.raises(CorruptRecord, match=r"jobs\.db.*damaged"):
        await backend.get("mail", ["j1"])


@pytest.mark.promise("P-04", "P-82")
async def test_a_thread_that_cannot_be_started_is_told_and_started_by_the_next_call(
    backend: SqliteBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as planted:
        planted.setattr(threading.Thread, "start", refuse)
        with pytest.raises(BackendUnavailable, match="no thread can be started"):
            await backend.enqueue("mail", [builders.new_job("a")])
        with pytest.raises(BackendUnavailable, match="no thread can be started"):
            await backend.counts("mail")

    async with asyncio.timeout(10):
        assert (await backend.enqueue("mail", [builders.new_job("a")]))[0].created
        assert (await backend.counts("mail")).accepted == 1


@pytest.mark.promise("P-93")
async def test_calls_that_prepare_at_once_take_nothing_away_from_one_another(path: Path) -> None:
    backend = SqliteBackend(os.path.relpath(path), sync="normal")

    async def prepared(name: str) -> None:
        await backend.prepare()
        for number in range(20):
            await backend.enqueue("mail", [builders.new_job(f"{name}{number}")])

    await asyncio.gather(*(prepared(name) for name in "abcd"))

    assert (await backend.counts("mail")).accepted == 80
    await backend.close()
