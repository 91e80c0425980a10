"""How SQLite answers our statements: by an index, never by reading whole tables."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from importlib import resources

import pytest

from leasemq.backends.sqlite.schema import MIGRATIONS
from leasemq.backends.sqlite.statements import script, statement

FILES = sorted(
    file.name.removesuffix(".sql")
    for file in (resources.files("leasemq.backends.sqlite") / "sql").iterdir()
    if file.name.endswith(".sql") and file.name.removesuffix(".sql") not in MIGRATIONS
)
HOT = (
    "claim_pick",
    "due",
    "overdue",
    "expired",
    "lapsed",
    "slip_lapse",
    "slip_trim",
    "next_due",
    "suspect_waits",
)
# A table that is read from its end on, or a common table of the statement's own, is no table scan.
SCAN = re.compile(r"SCAN leasemq_|SCAN [a-z] (?!VIRTUAL)")


@pytest.fixture(scope="module")
def empty() -> Iterator[sqlite3.Connection]:
    """An empty store without statistics, as every store begins."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        yield _created(connection)


@pytest.fixture(scope="module")
def analysed() -> Iterator[sqlite3.Connection]:
    """A store whose statistics were taken when it was empty: they are wrong later."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        _created(connection).execute("ANALYZE")
        yield connection


def _created(connection: sqlite3.Connection) -> sqlite3.Connection:
    connection.execute(statement("meta_create").sql)
    for migration in MIGRATIONS:
        for part in script(migration):
            connection.execute(part)
    return connection


def plan(connection: sqlite3.Connection, name: str) -> list[str]:
    """What SQLite will do for a statement, a step each."""
    asked = statement(name)
    rows = connection.execute(f"EXPLAIN QUERY PLAN {asked.sql}", [None] * len(asked.parameters))
    return [row[3] for row in rows]


@pytest.mark.parametrize("name", FILES)
def test_no_statement_reads_a_whole_table(
    name: str, empty: sqlite3.Connection, analysed: sqlite3.Connection
) -> None:
    for connection in (empty, analysed):
        assert not [step for step in plan(connection, name) if SCAN.match(step)]


@pytest.mark.parametrize("name", HOT)
def test_what_workers_and_sweeps_ask_all_the_time_is_never_sorted(
    name: str, empty: sqlite3.Connection, analysed: sqlite3.Connection
) -> None:
    for connection in (empty, analysed):
        steps = plan(connection, name)
        assert any("USING INDEX leasemq_job_" in step or "USING COVERING INDEX" in step for step in steps)
        assert not [step for step in steps if "TEMP B-TREE" in step]


@pytest.mark.parametrize("name", FILES)
def test_a_statement_binds_its_parameters_in_the_order_it_tells(name: str) -> None:
    asked = statement(name)

    numbers = {int(number) for number in re.findall(r"\?(\d+)", asked.sql)}

    assert numbers == set(range(1, len(asked.parameters) + 1))
    assert not re.search(r":[a-z]", asked.sql)


def test_only_tables_of_small_rows_do_without_a_rowid(empty: sqlite3.Connection) -> None:
    """SQLite reads a large row of such a table whole, overflow pages and all, to compare its key."""
    rows = empty.execute("SELECT name, sql FROM sqlite_master WHERE sql LIKE '%WITHOUT ROWID%'").fetchall()

    large = {name for name, sql in rows if "BLOB" in sql}

    assert large == {"leasemq_worker", "leasemq_schedule"}  # a few rows, of a few hundred bytes
