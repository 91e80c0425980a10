"""How a store comes to be, is upgraded, and keeps the functions of several releases."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Iterator
from dataclasses import replace
from urllib.parse import urlsplit

import psycopg
import pytest

from leasemq.backends.postgres import PostgresBackend
from leasemq.backends.postgres.functions import installed_name, names
from leasemq.errors import BackendUnavailable, SchemaTooNew, Unsupported
from leasemq.testing.conformance.builders import new_job
from tests.backends.postgres.conftest import Operator, becomes, placed, settings_for
from tests.servers import Proxy


@pytest.fixture
def fresh(operator: Operator) -> Iterator[str]:
    """The name of a schema that is not there yet."""
    name = f"fresh_{secrets.token_hex(6)}"
    yield name
    operator.execute(f'DROP SCHEMA IF EXISTS "{name}" CASCADE'.encode())


async def _prepared(url: str, schema: str) -> PostgresBackend:
    backend = PostgresBackend(settings_for(url, schema))
    await backend.prepare()
    return backend


@pytest.mark.promise("P-94", "P-85")
async def test_of_many_that_prepare_at_once_all_find_one_store(postgres_url: str, fresh: str) -> None:
    backends = [PostgresBackend(settings_for(postgres_url, fresh)) for _ in range(6)]

    found = await asyncio.gather(*(backend.prepare() for backend in backends))

    assert len({capabilities.store_id for capabilities in found}) == 1
    assert (await backends[0].enqueue("q", [new_job("j")]))[0].created
    await backends[0].close()


@pytest.mark.promise("P-94", "P-85")
async def test_who_comes_second_waits_longer_for_the_functions_than_for_other_locks(
    postgres_url: str, fresh: str, operator: Operator
) -> None:
    lock = f"hashtextextended('leasemq install {fresh}', 0)"
    operator.execute(f"SELECT pg_advisory_lock({lock})".encode())
    backend = PostgresBackend(replace(settings_for(postgres_url, fresh), lock_ms=1))
    preparing = asyncio.create_task(backend.prepare())
    waiting = (
        "SELECT FROM pg_stat_activity WHERE wait_event = 'advisory' AND application_name = %s"
        " AND query_start < clock_timestamp() - interval '50 ms'"
    )
    await becomes(lambda: preparing.done() or operator.execute(waiting, (fresh,)).fetchall(), "it waits")
    operator.execute(f"SELECT pg_advisory_unlock({lock})".encode())

    assert (await preparing).store_id
    await backend.close()


@pytest.mark.promise("P-94")
async def test_preparing_again_keeps_the_store_and_its_jobs(postgres_url: str, fresh: str) -> None:
    backend = PostgresBackend(settings_for(postgres_url, fresh))
    before = await backend.prepare()
    await backend.enqueue("q", [new_job("j")])
    await backend.close()

    assert await backend.prepare() == before
    assert (await backend.counts("q")).waiting == 1
    await backend.close()


@pytest.mark.promise("P-85", "P-94")
async def test_a_store_that_a_newer_release_made_room_in_goes_on_serving_this_one(
    postgres_url: str, fresh: str, operator: Operator
) -> None:
    await (await _prepared(postgres_url, fresh)).close()
    operator.execute(placed("INSERT INTO {s}.migration (name) VALUES ('pre_999')", fresh))
    operator.execute(placed("ALTER TABLE {s}.job ADD COLUMN later text", fresh))

    backend = await _prepared(postgres_url, fresh)

    assert (await backend.enqueue("q", [new_job("j")]))[0].created
    await backend.close()


@pytest.mark.promise("P-85")
async def test_a_store_that_a_newer_release_has_to_itself_is_refused(
    postgres_url: str, fresh: str, operator: Operator
) -> None:
    await (await _prepared(postgres_url, fresh)).close()
    operator.execute(placed("INSERT INTO {s}.migration (name) VALUES ('post_999')", fresh))

    with pytest.raises(SchemaTooNew, match="post_999"):
        await _prepared(postgres_url, fresh)


@pytest.mark.promise("P-85")
async def test_functions_of_this_release_stand_beside_those_of_others(
    postgres_url: str, fresh: str, operator: Operator
) -> None:
    await (await _prepared(postgres_url, fresh)).close()
    operator.execute(
        placed("CREATE FUNCTION {s}.claim_0000000000() RETURNS int LANGUAGE sql AS 'SELECT 1'", fresh)
    )

    backend = await _prepared(postgres_url, fresh)
    await backend.close()

    found = operator.execute(
        "SELECT proname FROM pg_proc WHERE pronamespace = %s::regnamespace", (fresh,)
    ).fetchall()
    installed = {installed_name(name) for name in names()}
    assert {name for (name,) in found} == installed | {"claim_0000000000"}


@pytest.mark.promise("P-85", "P-94")
async def test_a_function_that_is_missing_is_installed_by_the_call_that_misses_it(
    postgres_url: str, fresh: str, operator: Operator
) -> None:
    backend = await _prepared(postgres_url, fresh)
    operator.execute(placed(f"DROP FUNCTION {{s}}.{installed_name('enqueue')}", fresh))

    assert (await backend.enqueue("q", [new_job("j")]))[0].created
    await backend.close()


@pytest.mark.promise("P-94")
async def test_a_database_that_cannot_hold_every_name_is_refused(
    postgres_url: str, operator: Operator
) -> None:
    name = f"latin_{secrets.token_hex(6)}"
    operator.execute(
        f"CREATE DATABASE {name} TEMPLATE template0 ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C'".encode()
    )
    try:
        with pytest.raises(Unsupported, match="UTF8"):
            await _prepared(postgres_url.rpartition("/")[0] + f"/{name}", "leasemq")
    finally:
        operator.execute(f"DROP DATABASE {name}".encode())


@pytest.mark.promise("P-82")
async def test_who_prepares_does_not_wait_for_ever_for_an_answer(
    postgres_url: str, fresh: str, operator: Operator
) -> None:
    await (await _prepared(postgres_url, fresh)).close()
    settings = replace(settings_for(postgres_url, fresh), request_ms=500, lock_ms=60_000)
    with psycopg.connect(postgres_url) as other:
        other.execute(placed("LOCK TABLE {s}.migration", fresh))
        with pytest.raises(BackendUnavailable, match="did not answer within 500 ms"):
            await PostgresBackend(settings).prepare()


@pytest.mark.promise("P-82")
async def test_who_waits_for_the_functions_gives_up_a_server_that_has_fallen_silent(
    postgres_url: str, fresh: str, operator: Operator
) -> None:
    lock = f"hashtextextended('leasemq install {fresh}', 0)"
    operator.execute(f"SELECT pg_advisory_lock({lock})".encode())
    parts = urlsplit(postgres_url)
    assert parts.port is not None
    with Proxy(parts.port) as proxy:
        url = f"postgresql://{parts.username}@127.0.0.1:{proxy.port}{parts.path}"
        settings = settings_for(url, fresh, request_ms=3_000)
        slow = replace(settings, conninfo=f"{settings.conninfo} connect_timeout=2")
        preparing = asyncio.create_task(PostgresBackend(slow).prepare())
        await becomes(lambda: preparing.done() or _waits(operator, fresh), "it waits")
        proxy.stall("replies")
        with pytest.raises(BackendUnavailable, match="did not answer within 3000 ms"):
            await preparing
    operator.execute(f"SELECT pg_advisory_unlock({lock})".encode())


def _waits(operator: Operator, name: str) -> bool:
    """Whether a session of this name waits for an advisory lock."""
    waiting = "SELECT FROM pg_stat_activity WHERE wait_event = 'advisory' AND application_name = %s"
    return bool(operator.execute(waiting, (name,)).fetchall())


@pytest.mark.promise("P-99", "P-94")
@pytest.mark.parametrize("table", ["store", "migration"])
async def test_a_schema_of_somebody_elses_is_left_alone_and_told_as_that(
    postgres_url: str, schema: str, operator: Operator, table: str
) -> None:
    operator.execute(placed(f"CREATE TABLE {{s}}.{table} (theirs int)", schema))
    with pytest.raises(Unsupported, match=r"somebody else's .* say \?schema= and another name"):
        await PostgresBackend(settings_for(postgres_url, schema)).prepare()

    found = "SELECT relname FROM pg_class WHERE relnamespace = %s::regnamespace"
    assert operator.execute(found, (schema,)).fetchall() == [(table,)]


@pytest.mark.promise("P-99", "P-94")
@pytest.mark.parametrize(
    ("wrong", "remedy"),
    [
        ("dbname=nowhere", "create the database, or name another"),
        ("user=nobody", "check the user and the password"),
        ("sslmode=require", "check sslmode"),
    ],
)
async def test_a_server_that_lets_nobody_in_is_not_told_as_one_that_is_away(
    postgres_url: str, schema: str, wrong: str, remedy: str
) -> None:
    settings = settings_for(postgres_url, schema)
    backend = PostgresBackend(replace(settings, conninfo=f"{settings.conninfo} {wrong}"))
    with pytest.raises(BackendUnavailable, match="refused the session; nothing was sent") as caught:
        await backend.prepare()

    assert remedy in str(caught.value)
    assert "cannot be reached" not in str(caught.value)
