"""Renewals: synchronous, bounded by their lease, on a session of their own."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from dataclasses import replace
from urllib.parse import urlsplit

import psycopg
import pytest
import pytest_asyncio

from leasemq.backends.postgres import PostgresBackend
from leasemq.backends.postgres.functions import Functions
from leasemq.backends.postgres.renewing import PostgresRenewer
from leasemq.backends.postgres.settings import Settings
from leasemq.clock import boot_ms
from leasemq.errors import BackendUnavailable, IndeterminateWrite
from leasemq.protocol.model import Lease, Renewal
from leasemq.testing.conformance import builders
from tests.backends.postgres.conftest import Operator, becomes, end_sessions, placed, settings_for
from tests.servers import Proxy

LEASE_MS = 30_000


@pytest_asyncio.fixture
async def lease(settings: Settings) -> AsyncIterator[Lease]:
    """A job that runs."""
    backend = PostgresBackend(settings)
    await backend.prepare()
    await backend.enqueue("q", [builders.new_job("j")])
    yield (await backend.claim("q", 1, LEASE_MS, builders.claimant("A"))).leases[0]
    await backend.close()


@pytest.fixture
def proxy(postgres_url: str) -> Iterator[Proxy]:
    """Between the renewer and the server."""
    port = urlsplit(postgres_url).port
    assert port is not None
    with Proxy(port) as between:
        yield between


@pytest.fixture
def renewer(proxy: Proxy, postgres_url: str, schema: str) -> Iterator[PostgresRenewer]:
    """Reaches the server through the proxy."""
    parts = urlsplit(postgres_url)
    far = f"postgresql://{parts.username}@127.0.0.1:{proxy.port}{parts.path}"
    with closing(PostgresRenewer(settings_for(far, schema), Functions(schema))) as made:
        yield made


def renewed(renewer: PostgresRenewer, lease: Lease, lease_ms: int = LEASE_MS) -> Renewal:
    """Renew it."""
    (answer,) = renewer.renew("q", [("j", lease.fence)], lease_ms)
    return answer


@pytest.mark.promise("P-15", "P-98")
async def test_a_renewer_whose_session_was_ended_opens_another(
    renewer: PostgresRenewer, lease: Lease, operator: Operator, schema: str
) -> None:
    assert await asyncio.to_thread(renewed, renewer, lease) is Renewal.HELD
    await asyncio.to_thread(end_sessions, operator, schema)

    assert await asyncio.to_thread(renewed, renewer, lease) is Renewal.HELD


@pytest.mark.promise("P-16", "P-15")
async def test_a_server_that_answers_nothing_costs_a_third_of_the_lease_and_no_more(
    renewer: PostgresRenewer, lease: Lease, proxy: Proxy
) -> None:
    assert await asyncio.to_thread(renewed, renewer, lease) is Renewal.HELD
    proxy.stall()
    asked_ms = boot_ms()
    with pytest.raises(IndeterminateWrite, match="no answer within 500 ms"):
        await asyncio.to_thread(renewed, renewer, lease, 900)
    waited_ms = boot_ms() - asked_ms
    proxy.heal()

    assert waited_ms < 5_000  # of a request that would have had twelve seconds
    assert await asyncio.to_thread(renewed, renewer, lease) is Renewal.HELD


@pytest.mark.promise("P-04", "P-15")
async def test_a_server_that_is_away_has_renewed_nothing(
    renewer: PostgresRenewer, lease: Lease, proxy: Proxy
) -> None:
    proxy.refuse()
    with pytest.raises(BackendUnavailable, match="nothing was sent"):
        await asyncio.to_thread(renewed, renewer, lease)
    proxy.heal()

    assert await asyncio.to_thread(renewed, renewer, lease) is Renewal.HELD


@pytest.mark.promise("P-15")
async def test_a_fork_renews_on_a_session_of_its_own(
    settings: Settings, schema: str, lease: Lease, operator: Operator
) -> None:
    with closing(PostgresRenewer(settings, Functions(schema))) as renewer:
        assert renewed(renewer, lease) is Renewal.HELD
        child = os.fork()
        if child == 0:
            code = 1
            try:
                code = 0 if renewed(renewer, lease) is Renewal.HELD else 2
            finally:
                os._exit(code)
        _, status = await asyncio.to_thread(os.waitpid, child, 0)
        assert os.waitstatus_to_exitcode(status) == 0
        before = operator.execute(
            "SELECT pid FROM pg_stat_activity WHERE application_name = %s ORDER BY pid", (schema,)
        ).fetchall()
        assert renewed(renewer, lease) is Renewal.HELD
        after = operator.execute(
            "SELECT pid FROM pg_stat_activity WHERE application_name = %s ORDER BY pid", (schema,)
        ).fetchall()

    assert set(before) >= set(after)


@pytest.mark.promise("P-15", "P-16", "B20")
async def test_who_renews_what_it_holds_waits_for_nobody_who_has_what_it_lost(
    settings: Settings, lease: Lease, postgres_url: str, operator: Operator, schema: str
) -> None:
    backend = PostgresBackend(settings)
    await backend.enqueue("q", [builders.new_job("k")])
    (other,) = (await backend.claim("q", 1, LEASE_MS, builders.claimant("B"))).leases
    await backend.close()
    lost = replace(lease.fence, number=lease.fence.number - 1)
    lock = "SELECT FROM {s}.active AS a JOIN {s}.job AS j ON j.key = a.job WHERE j.id = '%s' FOR UPDATE OF a"
    with (
        closing(PostgresRenewer(settings, Functions(schema))) as renewer,
        psycopg.connect(postgres_url) as has,
    ):
        has.execute(b"SET deadlock_timeout = '10ms'")
        has.execute(placed(lock % "j", schema))
        asked = [("j", lost), ("k", other.fence)]
        renewing = asyncio.create_task(asyncio.to_thread(renewer.renew, "q", asked, LEASE_MS))
        waits = "SELECT FROM pg_stat_activity WHERE application_name = %s AND wait_event_type = 'Lock'"
        await becomes(
            lambda: renewing.done() or operator.execute(waits, (schema,)).fetchall(), "it renews or waits"
        )
        await asyncio.to_thread(has.execute, placed(lock % "k", schema))  # a circle, if it waits
        assert list(await renewing) == [Renewal.LOST, Renewal.HELD]
