"""Renewal has its own connection in its own thread, and gets over whatever happened to it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from leasemq.backends.redis import RedisBackend
from leasemq.backends.redis.renewing import RedisRenewer
from leasemq.backends.redis.settings import located
from leasemq.errors import BackendUnavailable, IndeterminateWrite
from leasemq.protocol.model import Fence, Renewal
from leasemq.testing.conformance import builders
from tests.servers import Proxy, RedisServer

LEASE_MS = 60_000
Held = list[tuple[str, Fence]]


@pytest.fixture
def held(server: RedisServer) -> Held:
    """A lease that is held."""

    async def claim() -> Held:
        backend = RedisBackend(located(server.url))
        await backend.prepare()
        await backend.enqueue("q", [builders.new_job("a")])
        claimed = await backend.claim("q", 1, LEASE_MS, builders.claimant("A"))
        await backend.close()
        return [(lease.ref.id, lease.fence) for lease in claimed.leases]

    return asyncio.run(claim())


@pytest.fixture
def renewer(proxy: Proxy) -> Iterator[RedisRenewer]:
    """A renewer behind the proxy, with short time-outs."""
    renewer = RedisRenewer(located(f"redis://127.0.0.1:{proxy.port}?timeout_ms=300&connect_timeout_ms=300"))
    yield renewer
    renewer.close()


@pytest.mark.promise("P-13", "P-98")
def test_a_connection_that_ended_while_nothing_was_renewed_is_made_anew(
    renewer: RedisRenewer, held: Held, proxy: Proxy
) -> None:
    assert renewer.renew("q", held, LEASE_MS) == (Renewal.HELD,)
    proxy.cut()

    assert renewer.renew("q", held, LEASE_MS) == (Renewal.HELD,)


@pytest.mark.promise("E-59", "B14")
def test_a_forgotten_script_is_loaded_again(renewer: RedisRenewer, held: Held, server: RedisServer) -> None:
    for _ in range(3):
        server.ask("SCRIPT", "FLUSH")
        assert renewer.renew("q", held, LEASE_MS) == (Renewal.HELD,)


@pytest.mark.promise("P-98")
def test_a_renewal_without_an_answer_is_in_doubt_and_the_next_one_is_its_own(
    renewer: RedisRenewer, held: Held, proxy: Proxy
) -> None:
    assert renewer.renew("q", held, LEASE_MS) == (Renewal.HELD,)
    proxy.stall("replies")
    with pytest.raises(IndeterminateWrite, match="renew"):
        renewer.renew("q", held, LEASE_MS)
    proxy.heal()

    stale = [(held[0][0], Fence(number=1, nonce=held[0][1].nonce))]
    assert renewer.renew("q", stale, LEASE_MS) == (Renewal.LOST,)


@pytest.mark.promise("P-98")
def test_a_server_that_is_away_or_a_replica_renews_nothing_and_later_does(
    renewer: RedisRenewer, held: Held, proxy: Proxy, server: RedisServer
) -> None:
    proxy.refuse()
    with pytest.raises(BackendUnavailable, match="nothing was sent"):
        renewer.renew("q", held, LEASE_MS)
    proxy.heal()
    server.ask("REPLICAOF", "127.0.0.1", 1)
    with pytest.raises(BackendUnavailable, match="is a replica"):
        renewer.renew("q", held, LEASE_MS)
    server.ask("REPLICAOF", "NO", "ONE")

    assert renewer.renew("q", held, LEASE_MS) == (Renewal.HELD,)
