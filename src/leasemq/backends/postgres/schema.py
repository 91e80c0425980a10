"""The store's tables and how they get there: numbered scripts, each applied once, by whoever comes first.

What a release needs comes in `pre` scripts, which leave room for the release before it; what only the
release before it needs goes in `post` scripts, when no process of it runs any more.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Coroutine

import psycopg

from leasemq.backends.postgres.connections import WireConnection
from leasemq.backends.postgres.faults import line, refused, unreachable
from leasemq.backends.postgres.functions import MIGRATIONS, Functions, installed_name, names, rendered
from leasemq.backends.postgres.server import Server, found
from leasemq.backends.postgres.settings import Settings
from leasemq.backends.postgres.wire import connected, is_gone
from leasemq.errors import BackendUnavailable, SchemaTooNew, Unsupported
from leasemq.protocol.insight import Capabilities

_PRE, _POST = "pre", "post"

# There already, of another kind, or without our columns.
_SOMEBODY_ELSES = frozenset({"42P07", "42710", "42809", "42703"})


async def prepared(settings: Settings, functions: Functions) -> Capabilities:
    """Create or upgrade the store; repeatable, and safe from many processes at once.

    Raises: SchemaTooNew, Unsupported, BackendUnavailable.
    """
    try:
        connection = await connected(settings)
    except psycopg.Error as error:
        raise unreachable(error, settings.place) from error
    patience_s = settings.request_ms / 1_000
    try:
        async with asyncio.timeout(patience_s):
            server = await found(connection, settings)
            _check_encoding(connection, settings)
            applied = await _applied(connection, settings)
        if applied is None or not set(migrations(_PRE)) <= applied:
            await _attended(_upgrade(connection, settings, _PRE), settings)
        _check_known(settings, applied or frozenset())
        async with asyncio.timeout(patience_s):
            has_functions = await _has_functions(connection, settings)
        if not has_functions:
            installing = functions.install(lambda statement: _execute(connection, statement))
            await _attended(installing, settings)
        async with asyncio.timeout(patience_s):
            return await _capabilities(connection, settings, server)
    except TimeoutError as error:
        raise BackendUnavailable(
            f"{settings.place} did not answer within {settings.request_ms} ms: prepare again when it does"
        ) from error
    except psycopg.Error as error:
        if is_gone(connection):
            raise unreachable(error, settings.place) from error
        if error.sqlstate in _SOMEBODY_ELSES:
            raise Unsupported(
                f"the schema {settings.schema!r} of {settings.place} has tables of somebody else's "
                f"({line(error)}): say ?schema= and another name in the URL"
            ) from error
        raise refused(error, settings.place) from error
    finally:
        await connection.close()


async def _attended(work: Coroutine[object, object, None], settings: Settings) -> None:
    """Wait for what takes as long as it takes, while the server answers others. Raises: TimeoutError."""
    working = asyncio.create_task(work)
    try:
        while not (await asyncio.wait({working}, timeout=settings.request_ms / 1_000))[0]:
            await _see_whether_it_answers(settings)
        working.result()
    finally:
        working.cancel()
        await asyncio.wait({working})


async def _see_whether_it_answers(settings: Settings) -> None:
    """Raises: TimeoutError if it says nothing to a newcomer; what it says is of no interest."""
    try:
        async with asyncio.timeout(settings.request_ms / 1_000):
            connection = await connected(settings)
        connection.pgconn.finish()
    except psycopg.errors.ConnectionTimeout as error:
        raise TimeoutError from error
    except psycopg.OperationalError:
        return


def migrations(kind: str) -> tuple[str, ...]:
    """Answer the scripts of a kind, in the order of their numbers."""
    names = [name for name in MIGRATIONS if name.startswith(f"{kind}_")]
    return tuple(sorted(names, key=lambda name: int(name.rpartition("_")[2])))


def _check_encoding(connection: WireConnection, settings: Settings) -> None:
    encoding = connection.info.parameter_status("server_encoding")
    if encoding != "UTF8":
        raise Unsupported(
            f"the database of {settings.place} is encoded in {encoding}, which cannot hold every name; "
            "use one created with ENCODING 'UTF8'"
        )


def _check_known(settings: Settings, applied: frozenset[str]) -> None:
    """Refuse a store that newer releases have to themselves by now."""
    newer = sorted(name for name in applied if name.startswith(_POST) and name not in migrations(_POST))
    if newer:
        raise SchemaTooNew(
            f"{settings.place}, schema {settings.schema!r}, was upgraded for good by a newer release"
            f" ({', '.join(newer)}); upgrade LeaseMQ"
        )


async def _applied(connection: WireConnection, settings: Settings) -> frozenset[str] | None:
    """Answer the scripts applied so far; None: there is no store yet."""
    table = f"{settings.quoted_schema}.migration"
    found = await _rows(connection, "SELECT to_regclass($1::text)::text", table)
    if found[0][0] is None:
        return None
    rows = await _rows(connection, f"SELECT name FROM {table}")  # noqa: S608 - a quoted identifier of ours
    return frozenset(str(row[0]) for row in rows)


async def _has_functions(connection: WireConnection, settings: Settings) -> bool:
    """Whether every function of this release is there, so that who looks sends none of them."""
    wanted = [installed_name(name) for name in names()]
    ((count,),) = await _rows(
        connection,
        "SELECT count(*) FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace"
        " WHERE n.nspname = $1::text AND p.proname = ANY(string_to_array($2::text, ','))",
        settings.schema,
        ",".join(wanted),
    )
    return count == len(wanted)


async def _upgrade(connection: WireConnection, settings: Settings, kind: str) -> None:
    schema = settings.quoted_schema
    async with connection.transaction():
        # Building an index takes as long as it takes, and so does waiting for whoever upgrades already.
        await _execute(connection, "SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = 0")
        await _rows(
            connection,
            "SELECT pg_advisory_xact_lock(hashtextextended('leasemq upgrade ' || $1::text, 0))",
            settings.schema,
        )
        known = await _rows(connection, "SELECT FROM pg_namespace WHERE nspname = $1::text", settings.schema)
        if not known:
            await _execute(connection, f"CREATE SCHEMA {schema}")
        await _execute(
            connection,
            f"CREATE TABLE IF NOT EXISTS {schema}.migration"
            " (name text PRIMARY KEY, at timestamptz NOT NULL DEFAULT now())",
        )
        applied = await _applied(connection, settings) or frozenset()
        for name in migrations(kind):
            if name not in applied:
                await _execute(connection, rendered(settings.schema, MIGRATIONS[name]))
                await _rows(
                    connection,
                    f"INSERT INTO {schema}.migration (name) VALUES ($1::text)",  # noqa: S608 - as above
                    name,
                )
        await _rows(
            connection,
            f"INSERT INTO {schema}.store (store_id) SELECT $1::text"  # noqa: S608 - as above
            f" WHERE NOT EXISTS (SELECT FROM {schema}.store)",
            secrets.token_hex(16),
        )


async def _capabilities(connection: WireConnection, settings: Settings, server: Server) -> Capabilities:
    ((store_id,),) = await _rows(connection, f"SELECT store_id FROM {settings.quoted_schema}.store")  # noqa: S608 - as above
    return Capabilities(
        backend="postgres",
        durability=server.durability,
        store_id=str(store_id),
        server=server.product,
        processes=True,
        push=settings.notify,
        exchange=True,
        transactions=True,
        warnings=server.warnings,
    )


async def _rows(connection: WireConnection, statement: str, *values: object) -> list[tuple[object, ...]]:
    cursor = await connection.execute(statement.encode(), values, prepare=False)
    return await cursor.fetchall() if cursor.description is not None else []


async def _execute(connection: WireConnection, statement: str) -> None:
    await connection.execute(statement.encode(), prepare=False)
