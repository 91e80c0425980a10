"""A schema of one test or process on the run's PostgreSQL server."""

from __future__ import annotations

import asyncio
from dataclasses import fields
from functools import partial

import psycopg
import pytest

from leasemq.backend import Backend
from leasemq.backends.postgres import PostgresBackend
from leasemq.backends.postgres.executor import Executor
from leasemq.backends.postgres.settings import Settings, located
from leasemq.clock import Clock
from leasemq.testing.conformance.store import CountStatements, PlantCorruption
from tests.servers.kept_sessions import KeptSessions
from tests.servers.stores import counted, with_parameter

# Deleting is quicker than truncating while the tables are small, and every truncation makes new files.
CLEAR = """
DO $clear$
DECLARE
    one record;
BEGIN
    FOR one IN
        SELECT c.oid::regclass AS name, pg_relation_size(c.oid) > 1000000 AS is_large
        FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE n.nspname = '{schema}' AND c.relkind IN ('r', 'p') AND c.relname NOT IN ({kept})
    LOOP
        IF one.is_large THEN
            EXECUTE format('TRUNCATE %s', one.name);
        ELSE
            EXECUTE format('DELETE FROM %s', one.name);
        END IF;
    END LOOP;
END $clear$
"""
KEPT = ("store", "migration")
PARTS_OF_A_JOB = (
    "ready", "scheduled", "active", "ended", "extra", "attempt", "refused", "log", "trail", "alias", "parent",
    "dependant",
)  # fmt: skip
COUNT_OF_PLACES = """(SELECT count(*) FROM ready WHERE job = key)
    + (SELECT count(*) FROM scheduled WHERE job = key)
    + (SELECT count(*) FROM active WHERE job = key)
    + (SELECT count(*) FROM ended WHERE job = key)"""
CORRUPTIONS = (  # ways in which what is stored of a job can be wrong, in spite of the columns' types
    "UPDATE job SET unique_key = 'k', unique_mode = 'sideways' WHERE key = %s",  # an unknown word
    "UPDATE job SET unique_key = 'k', unique_mode = 'skip', unique_until = NULL WHERE key = %s",  # missing
    "INSERT INTO attempt (job, fence, number, outcome, replay, claimed_ms, renewed_ms, ended_ms, settled_by,"
    " worker, incarnation) VALUES (%s, 1, 1, 99, false, 0, 0, 0, 0, 'w', 'w-1')",  # an unknown outcome
)


class PostgresStore:
    """See `ServedStore`. Its schema is made by the first backend that is prepared."""

    def __init__(self, url: str, schema: str) -> None:
        self._server = url
        self.schema = schema
        self.url = with_parameter(url, f"schema={schema}")
        self._sessions = KeptSessions()
        self._operator: psycopg.Connection | None = None

    def open(self, clock: Clock) -> Backend:
        """See `ServedStore.open`."""
        location = located(self.url)
        known = {field.name: getattr(location, field.name) for field in fields(location)}
        return PostgresBackend(Settings(**known, clock=clock))

    def lend_sessions(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """See `ServedStore.lend_sessions`."""
        self._sessions.lend(monkeypatch)

    def plants(self) -> list[PlantCorruption]:
        """See `ServedStore.plants`."""
        return [partial(self._plant, corruption) for corruption in CORRUPTIONS]

    async def _plant(self, corruption: str, queue: str, job_id: str) -> None:
        await asyncio.to_thread(self._plant_now, corruption, queue, job_id)

    def _plant_now(self, corruption: str, queue: str, job_id: str) -> None:
        operator = self._connected()
        row = operator.execute(
            "SELECT j.key FROM job j JOIN queue q ON q.key = j.queue WHERE q.name = %s AND j.id = %s",
            (queue, job_id),
        ).fetchone()
        assert row is not None, f"no job {queue}/{job_id}"
        assert operator.execute(corruption, row).rowcount == 1

    def counting(self, monkeypatch: pytest.MonkeyPatch) -> CountStatements:
        """See `ServedStore.counting`: each call is one request."""
        return counted(monkeypatch, Executor, ("call",))

    def orphans(self) -> list[str]:
        """See `ServedStore.orphans`."""
        operator = self._connected()
        found = []
        for table in PARTS_OF_A_JOB:
            rows = operator.execute(
                f"SELECT job FROM {table} WHERE job NOT IN (SELECT key FROM job)"  # noqa: S608  own names
            )
            found += [f"{table}: job {key}" for (key,) in rows]
        rows = operator.execute(f"SELECT key, {COUNT_OF_PLACES} FROM job")  # noqa: S608  own names
        found += [f"job {key} is in {count} places" for key, count in rows if count != 1]
        rows = operator.execute(
            "SELECT h.key, h.id FROM hold h WHERE h.until_ms IS NULL AND NOT EXISTS"
            " (SELECT 1 FROM job j WHERE j.queue = h.queue AND j.id = h.id"
            " AND j.generation = h.generation)"
        )
        return found + [f"hold: key {key!r} of {job_id!r}" for key, job_id in rows]

    def clear(self) -> None:
        """See `ServedStore.clear`."""
        kept = ", ".join(f"'{name}'" for name in KEPT)
        self._connected().execute(CLEAR.format(schema=self.schema, kept=kept))

    def drop(self) -> None:
        """See `ServedStore.drop`."""
        self._sessions.end()
        with self._connected() as operator:
            operator.execute(f"DROP SCHEMA IF EXISTS {self.schema} CASCADE")

    def _connected(self) -> psycopg.Connection:
        if self._operator is None or self._operator.closed:
            options = f"-c search_path={self.schema} -c client_min_messages=warning"
            self._operator = psycopg.connect(self._server, autocommit=True, options=options)
        return self._operator
