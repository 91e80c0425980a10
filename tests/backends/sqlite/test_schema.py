"""The store itself: made once, shared by namespaces and processes, refused when it is not ours to read."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import sys
from pathlib import Path

import pytest

from leasemq.backends.sqlite import SqliteBackend, schema
from leasemq.backends.sqlite.statements import script
from leasemq.errors import BackendUnavailable, SchemaTooNew, Unsupported
from leasemq.protocol.insight import Durability, Filter
from leasemq.testing.conformance import builders
from tests.backends.sqlite.conftest import Open, Peek

FIRST_VERSION = [
    *script("meta_create"),
    "INSERT INTO leasemq_meta VALUES ('schema', 1)",
    *script("schema_1"),
]  # as the first release makes it

PREPARE = """
import asyncio, sys
from leasemq.backends.sqlite import SqliteBackend
backend = SqliteBackend(sys.argv[1])
print(asyncio.run(backend.prepare()).store_id)
"""


@pytest.mark.promise("P-07", "P-93")
@pytest.mark.parametrize(("sync", "durability"), [("full", Durability.D2), ("normal", Durability.D1)])
async def test_the_durability_class_follows_from_sync(
    opened: Open, sync: str, durability: Durability
) -> None:
    backend = await opened(sync=sync)

    capabilities = await backend.prepare()

    assert capabilities.durability is durability
    assert capabilities.server == f"SQLite {sqlite3.sqlite_version}"
    assert (capabilities.processes, capabilities.exchange, capabilities.transactions) == (True, True, True)


@pytest.mark.promise("P-93")
async def test_full_sync_is_the_default_and_reaches_the_connection_that_writes(path: Path) -> None:
    backend = SqliteBackend(path)
    await backend.prepare()

    level = await backend._write(lambda step: step.connection.execute("PRAGMA synchronous").fetchone()[0])
    mode = await backend._write(lambda step: step.connection.execute("PRAGMA journal_mode").fetchone()[0])
    await backend.close()

    assert (level, mode) == (2, "wal")


@pytest.mark.promise("P-90")
async def test_many_processes_may_prepare_one_new_file_at_once(path: Path) -> None:
    processes = [
        await asyncio.create_subprocess_exec(
            sys.executable, "-c", PREPARE, str(path), stdout=asyncio.subprocess.PIPE
        )
        for _ in range(4)
    ]

    answers = [await process.communicate() for process in processes]

    assert [process.returncode for process in processes] == [0, 0, 0, 0]
    assert len({out for out, _ in answers}) == 1


async def test_namespaces_in_one_file_do_not_see_one_another(opened: Open) -> None:
    shop, bank = await opened(namespace="shop"), await opened(namespace="bank")
    await shop.enqueue("mail", [builders.new_job("a")])
    await bank.pause("mail")

    assert await bank.get("mail", ["a"]) == (None,)
    assert (await bank.find("mail", Filter(), None, 10)).jobs == ()
    assert await bank.queues() == ("mail",), "a paused queue is listed"
    assert (await bank.counts("mail")).accepted == 0
    assert not (await shop.counts("mail")).paused
    assert (await shop.prepare()).store_id != (await bank.prepare()).store_id
    assert len((await shop.claim("mail", 10, 1_000, builders.claimant())).leases) == 1


async def test_the_store_id_outlives_every_process(opened: Open) -> None:
    first = await (await opened()).prepare()
    again = await (await opened()).prepare()

    assert first.store_id == again.store_id
    assert len(first.store_id) == 32


@pytest.mark.promise("P-93")
async def test_who_looks_into_a_store_opens_it_while_another_program_writes(opened: Open, path: Path) -> None:
    await (await opened()).enqueue("mail", [builders.new_job("a")])
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    try:
        looking = SqliteBackend(path, busy_timeout_ms=1)
        await looking.prepare()
        assert (await looking.counts("mail")).waiting == 1
        await looking.close()
    finally:
        other.close()


@pytest.mark.promise("P-85")
async def test_a_store_of_a_newer_release_is_left_alone(opened: Open, peek: Peek, path: Path) -> None:
    known = len(schema.MIGRATIONS)
    await opened()
    await peek("UPDATE leasemq_meta SET value = value + 1")

    told = f"version {known + 1}; upgrade LeaseMQ: this release knows {known}"
    with pytest.raises(SchemaTooNew, match=told):
        await SqliteBackend(path).prepare()

    assert await peek("SELECT value FROM leasemq_meta") == [(known + 1,)]


@pytest.mark.promise("P-85", "A-38")
async def test_a_store_of_the_first_version_is_upgraded_with_its_jobs(
    opened: Open, peek: Peek, path: Path
) -> None:
    for part in FIRST_VERSION:
        await peek(part)
    await peek("INSERT INTO leasemq_store VALUES ('leasemq', 'the-same')")
    await peek(
        "INSERT INTO leasemq_queue (key, namespace, name, newest_key, accepted, waiting)"
        " VALUES (1, 'leasemq', 'mail', 1, 1, 1)"
    )
    await peek(
        "INSERT INTO leasemq_job (key, queue, id, generation, state, priority, place, due_ms, created_ms,"
        " since_ms) VALUES (1, 1, 'old', 1, 'waiting', 0, 1, 0, 0, 0)"
    )
    await peek(
        "INSERT INTO leasemq_body (job, task, payload, overrides, headers, max_stalls, keep_result_ms,"
        " keep_record_ms, keep_dead_ms) VALUES (1, 'send', x'00', x'', x'', 2, 9, 9, 9)"
    )

    backend = await opened()
    await backend.enqueue("mail", [builders.new_job("new")])
    leases = (await backend.claim("mail", 10, 1_000, builders.claimant())).leases

    assert [lease.ref.id for lease in leases] == ["old", "new"]
    assert (await backend.prepare()).store_id == "the-same"
    assert await peek("SELECT value FROM leasemq_meta") == [(len(schema.MIGRATIONS),)]


async def test_a_file_with_tables_of_its_owner_is_shared_with_him(
    path: Path, opened: Open, peek: Peek
) -> None:
    await peek("CREATE TABLE job (id INTEGER PRIMARY KEY, mine TEXT)")
    await peek("PRAGMA user_version = 7")

    backend = await opened()
    await backend.enqueue("mail", [builders.new_job("a")])

    assert await peek("SELECT count(*) FROM job") == [(0,)]
    assert await peek("PRAGMA user_version") == [(7,)]


async def test_an_unprepared_store_says_what_to_do(path: Path) -> None:
    backend = SqliteBackend(path)

    with pytest.raises(Unsupported, match="prepare"):
        await backend.counts("mail")
    with pytest.raises(Unsupported, match="prepare"):
        await backend.enqueue("mail", [builders.new_job("a")])

    await backend.close()


async def test_an_sqlite_that_is_too_old_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema.sqlite3, "sqlite_version_info", (3, 34, 1))

    with pytest.raises(Unsupported, match=r"3\.35\.0 or newer"):
        await SqliteBackend(path).prepare()


async def test_a_closed_backend_refuses_work_until_it_is_prepared_again(opened: Open) -> None:
    backend = await opened()
    await backend.close()
    await backend.close()

    with pytest.raises(BackendUnavailable, match="closed"):
        await backend.counts("mail")

    await backend.prepare()
    assert (await backend.counts("mail")).accepted == 0


async def test_a_relative_path_is_not_moved_by_a_later_change_of_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    backend = SqliteBackend("jobs.db")
    await backend.prepare()
    monkeypatch.chdir(tmp_path / "elsewhere")

    await backend.enqueue("mail", [builders.new_job("a")])
    await backend.close()

    assert not list((tmp_path / "elsewhere").iterdir())


async def test_what_can_be_no_database_is_refused_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "file").touch()

    for name, told in (
        ("folder", "is a folder, not a file"),
        ("pipe", "is a pipe, a socket or a device"),
        ("x" * 300, "File name too long"),
        ("file/jobs.db", "Not a directory"),
    ):
        with pytest.raises(Unsupported, match=told):
            await SqliteBackend(tmp_path / name).prepare()
