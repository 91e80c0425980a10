"""A command is pointed at a file that is not LeaseMQ's: it says so, and leaves the file as it was."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from leasemq import App
from tests.cli.conftest import Command


def of_another_program(path: Path, journal_mode: str) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA journal_mode = {journal_mode}")
        connection.execute("CREATE TABLE customer (name TEXT)")
        connection.commit()


@pytest.mark.promise("A-45")
@pytest.mark.parametrize("kind", ["delete", "wal", "empty", "text"])
@pytest.mark.parametrize("arguments", [["queues"], ["jobs"], ["doctor"], ["pause", "mail"]])
def test_a_file_without_a_store_is_named_in_one_line_and_not_changed(
    folder: Path, leasemq: Command, kind: str, arguments: list[str]
) -> None:
    file = folder / "customers.db"
    match kind:
        case "empty":
            file.touch()
        case "text":
            file.write_text("name,city\nada,london\n" * 100)
        case _:
            of_another_program(file, kind)
    before = (file.read_bytes(), sorted(folder.iterdir()))
    answer = leasemq(*arguments, "--url", "sqlite:///customers.db")
    assert (answer.code, answer.out) == (1, "")
    assert answer.err == "error: there is no LeaseMQ store in customers.db; nothing was ever enqueued there\n"
    assert (file.read_bytes(), sorted(folder.iterdir())) == before


@pytest.mark.promise("A-45")
def test_a_store_that_somebody_writes_to_right_now_is_still_looked_into(
    app: App, folder: Path, leasemq: Command
) -> None:
    app.tasks["send"].options(id="x").enqueue_sync("ada")
    with closing(sqlite3.connect(folder / "jobs.db", isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        from leasemq.backends.sqlite import holds_store

        assert holds_store(folder / "jobs.db")
        connection.execute("ROLLBACK")
    assert leasemq("job", "x", "--url", "sqlite:///jobs.db").code == 0
