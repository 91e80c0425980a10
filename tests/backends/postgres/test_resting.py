"""The connections of our transactions: what they keep at rest, and how long a silent server is borne."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest
from psycopg.rows import dict_row
from psycopg.types.string import TextLoader

from leasemq.backends.postgres import PostgresBackend, from_url
from leasemq.backends.postgres.settings import Settings
from leasemq.errors import BackendUnavailable
from leasemq.sessions import run_through
from tests.backends.postgres.conftest import Operator, becomes, sessions, settings_for
from tests.servers import Proxy
from tests.servers.stores import ServedStore, served_store

pytestmark = pytest.mark.promise("P-114", "P-94")


@pytest.fixture
def served() -> Iterator[ServedStore]:
    """A store of the test's own."""
    store = served_store("postgres")
    yield store
    store.drop()


@pytest.fixture
def proxy(postgres_url: str) -> Iterator[Proxy]:
    """Between us and the server."""
    port = urlsplit(postgres_url).port
    assert port is not None
    with Proxy(port) as between:
        yield between


@pytest.fixture
def far(served: ServedStore, proxy: Proxy, postgres_url: str, schema: str) -> Settings:
    """How the store is used through the proxy, by somebody with little patience."""
    parts = urlsplit(postgres_url)
    url = f"postgresql://{parts.username}@127.0.0.1:{proxy.port}{parts.path}"
    return settings_for(url, schema, request_ms=300)


async def _one(backend: PostgresBackend, statement: str) -> None:
    """Do this in a transaction, and commit it."""
    async with backend.transaction(blocks=False, idle_ms=30_000) as joined:
        session: Any = joined.session
        await session.execute(statement)
        await joined.commit()


async def _one_in_a_thread(backend: PostgresBackend, proxy: Proxy | None = None) -> None:
    """The same for a thread; with a proxy, replies fail to come once it has begun."""
    async with backend.transaction(blocks=True, idle_ms=300) as joined:
        session: Any = joined.session
        if proxy is not None:
            proxy.stall("replies")
        session.execute("select 1")
        await joined.commit()


async def test_a_transaction_leaves_nothing_locked_while_its_connection_rests(
    served: ServedStore, operator: Operator
) -> None:
    backend = from_url(served.url)
    await backend.prepare()
    await _one(backend, "select pg_advisory_lock(77)")
    taken = operator.execute("select pg_try_advisory_lock(77), pg_advisory_unlock_all()").fetchall()
    await backend.close()

    assert taken[0][0] is True


@pytest.mark.parametrize("blocks", [False, True])
async def test_what_a_block_says_of_rows_cursors_and_types_is_its_own(
    served: ServedStore, blocks: bool
) -> None:
    backend = from_url(served.url)
    await backend.prepare()
    found: list[Any] = []
    for is_first in (True, False):
        async with backend.transaction(blocks=blocks, idle_ms=30_000) as joined:
            session: Any = joined.session
            if is_first:
                session.cursor_factory = psycopg.RawCursor if blocks else psycopg.AsyncRawCursor
                session.row_factory = dict_row
                session.adapters.register_loader("int4", TextLoader)
            placeholder = "$1" if is_first else "%s"
            asked = session.execute(f"select {placeholder}::int4 as one, pg_backend_pid()::int8 as pid", (1,))
            rows = (asked if blocks else await asked).fetchall()
            found.append(rows if blocks else await rows)
            await joined.commit()
    await backend.close()

    (before,), (after,) = found
    assert before == {"one": "1", "pid": after[1]}  # of the same session
    assert after[0] == 1


@pytest.mark.promise("P-82")
async def test_a_thread_does_not_wait_for_ever_for_a_server_that_fell_silent(
    far: Settings, proxy: Proxy
) -> None:
    backend = PostgresBackend(far)
    with pytest.raises(psycopg.OperationalError, match="no answer in time"):
        await asyncio.to_thread(run_through, _one_in_a_thread(backend, proxy))
    await backend.close()


@pytest.mark.promise("P-82")
@pytest.mark.parametrize("blocks", [False, True])
async def test_a_connection_that_fell_silent_while_it_rested_is_given_up(
    far: Settings, proxy: Proxy, blocks: bool
) -> None:
    backend = PostgresBackend(replace(far, conninfo=f"{far.conninfo} connect_timeout=2"))
    if blocks:
        await asyncio.to_thread(run_through, _one_in_a_thread(backend))
    else:
        await _one(backend, "select 1")
    proxy.stall("replies")
    with pytest.raises(BackendUnavailable):
        if blocks:
            await asyncio.to_thread(run_through, _one_in_a_thread(backend))
        else:
            await _one(backend, "select 1")
    await backend.close()


def test_connections_of_a_loop_that_is_closed_are_closed_at_the_next_use(
    postgres_url: str, schema: str, operator: Operator
) -> None:
    backend = PostgresBackend(settings_for(postgres_url, schema))
    for _ in range(3):
        with asyncio.Runner() as runner:
            runner.run(_one(backend, "select 1"))
    with asyncio.Runner() as runner:
        runner.run(_one(backend, "select 1"))
        runner.run(becomes(lambda: sessions(operator, schema) == 1, "one session is left"))
        runner.run(backend.close())
