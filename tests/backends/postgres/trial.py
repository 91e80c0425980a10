"""A few functions that are easy to watch, as a catalogue that an executor takes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from leasemq.backends.postgres.routine import Routine
from leasemq.backends.postgres.settings import quoted

# name -> (parameters, is_read, what follows CREATE FUNCTION; {s} is the schema)
FUNCTIONS: dict[str, tuple[tuple[str, ...], bool, str]] = {
    "record": (
        ("bigint",),
        False,
        "record(p bigint) RETURNS bigint LANGUAGE sql AS 'INSERT INTO {s}.kept VALUES (p); SELECT p'",
    ),
    "kept": (
        (),
        True,
        "kept() RETURNS SETOF bigint LANGUAGE sql STABLE AS 'SELECT value FROM {s}.kept ORDER BY value'",
    ),
    "nap": (
        ("double precision", "bigint"),
        False,
        "nap(s double precision, p bigint) RETURNS bigint LANGUAGE sql AS"
        " 'INSERT INTO {s}.kept VALUES (p); SELECT pg_sleep(s); SELECT p'",
    ),
    "gaze": (
        ("double precision",),
        True,
        "gaze(s double precision) RETURNS bigint LANGUAGE sql AS 'SELECT pg_sleep(s); SELECT 1::bigint'",
    ),
    "collide": (  # fails with this code until it was asked so often; a sequence goes on whatever is undone
        ("bigint", "text"),
        False,
        "collide(n bigint, code text) RETURNS bigint LANGUAGE plpgsql AS $f$ BEGIN"
        " INSERT INTO {s}.kept VALUES (n); IF nextval('{s}.asked') <= n THEN"
        " RAISE EXCEPTION 'on purpose' USING ERRCODE = code; END IF; RETURN currval('{s}.asked'); END $f$",
    ),
    "guarded": (  # waits for a lock; whoever asks `tries` sees how often it was tried
        ("bigint",),
        False,
        "guarded(p bigint) RETURNS bigint LANGUAGE sql AS"
        " $f$ SELECT nextval('{s}.asked'); SELECT pg_advisory_xact_lock(hashtextextended('{s}', 0));"
        " INSERT INTO {s}.kept VALUES (p); SELECT p $f$",
    ),
    "told": (
        ("text[]",),
        True,
        "told(names text[]) RETURNS text[] LANGUAGE sql AS"
        " 'SELECT array_agg(current_setting(n) ORDER BY i) FROM unnest(names) WITH ORDINALITY AS u (n, i)'",
    ),
    "claim": (
        ("text",),
        False,
        "claim(name text) RETURNS text LANGUAGE sql AS 'SELECT current_setting(name)'",
    ),
    "peek": (
        ("text",),
        False,
        "peek(name text) RETURNS text LANGUAGE sql AS 'SELECT current_setting(name)'",
    ),
    "prepared": (
        (),
        True,
        "prepared() RETURNS bigint LANGUAGE sql AS 'SELECT count(*) FROM pg_prepared_statements'",
    ),
    "session": ((), False, "session() RETURNS integer LANGUAGE sql AS 'SELECT pg_backend_pid()'"),
}


class Trials:
    """See `executor.Catalogue`."""

    def __init__(self, schema: str) -> None:
        self._place = quoted(schema)
        self.installations = 0

    def routine(self, name: str) -> Routine:
        """See `Catalogue.routine`."""
        parameters, is_read, _ = FUNCTIONS[name]
        return Routine(name=name, qualified=f"{self._place}.{name}", parameters=parameters, is_read=is_read)

    async def install(self, execute: Callable[[str], Awaitable[None]]) -> None:
        """See `Catalogue.install`."""
        self.installations += 1
        made = [f"CREATE OR REPLACE FUNCTION {self._place}.{text}" for _, _, text in FUNCTIONS.values()]
        tables = [
            f"CREATE TABLE IF NOT EXISTS {self._place}.kept (value bigint)",
            f"CREATE SEQUENCE IF NOT EXISTS {self._place}.asked",
        ]
        await execute(";".join([*tables, *made]).replace("{s}", self._place))
