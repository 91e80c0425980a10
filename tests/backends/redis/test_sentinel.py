"""Sentinels are asked at each connection, in turn; the server itself must say that it is a primary."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from leasemq.backends.redis.blocking import BlockingCaller
from leasemq.backends.redis.connecting import Link
from leasemq.backends.redis.settings import located
from leasemq.errors import BackendUnavailable
from tests.backends.redis.puppet import puppet
from tests.backends.redis.small_scripts import ADD, SUM
from tests.servers import RedisServer
from tests.servers.server import free_port


@pytest.fixture
def other(tmp_path: Path) -> Iterator[RedisServer]:
    """A second server."""
    with RedisServer(tmp_path / "other") as other:
        yield other


def naming(*servers: RedisServer) -> Callable[[Sequence[bytes]], bytes]:
    """A Sentinel that names these as the primary of `main`, one after the other, and stays with the last."""
    left = list(servers)

    def answer(command: Sequence[bytes]) -> bytes:
        assert [word.upper() for word in command[:2]] == [b"SENTINEL", b"GET-MASTER-ADDR-BY-NAME"]
        if command[2] != b"main":
            return b"*-1\r\n"
        port = str((left.pop(0) if len(left) > 1 else left[0]).port).encode()
        return b"*2\r\n$9\r\n127.0.0.1\r\n$%d\r\n%b\r\n" % (len(port), port)

    return answer


@pytest.mark.promise("P-95", "P-98", "E-62")
async def test_a_dead_sentinel_is_passed_over(server: RedisServer) -> None:
    async with puppet(naming(server)) as port:
        link = Link(located(f"redis+sentinel://127.0.0.1:{free_port()},127.0.0.1:{port}/main"))
        caller = BlockingCaller(link.settings)

        assert await link.call(ADD, "q", 1) == 1
        assert await asyncio.to_thread(caller.call, ADD, "q", 1) == 2
        caller.close()
        await link.close()


@pytest.mark.promise("P-95", "P-98", "E-62", "B15")
async def test_when_the_primary_becomes_a_replica_the_new_one_is_asked_for(
    server: RedisServer, other: RedisServer
) -> None:
    async with puppet(naming(server, server, other)) as port:
        link = Link(located(f"redis+sentinel://127.0.0.1:{port}/main"))
        caller = BlockingCaller(link.settings)
        await link.call(ADD, "q", 1)
        await asyncio.to_thread(caller.call, ADD, "q", 1)
        server.ask("REPLICAOF", "127.0.0.1", other.port)
        with pytest.raises(BackendUnavailable, match="is a replica"):
            await link.call(ADD, "q", 10)
        with pytest.raises(BackendUnavailable, match="is a replica"):
            await asyncio.to_thread(caller.call, ADD, "q", 10)

        assert await link.call(ADD, "q", 100) == 100
        assert await asyncio.to_thread(caller.call, ADD, "q", 100) == 200
        caller.close()
        await link.close()


@pytest.mark.promise("P-95", "P-98", "E-62")
async def test_a_replica_that_a_sentinel_still_names_is_not_written_to(
    server: RedisServer, other: RedisServer
) -> None:
    other.ask("REPLICAOF", "127.0.0.1", server.port)
    async with puppet(naming(other, other, server)) as port:
        link = Link(located(f"redis+sentinel://127.0.0.1:{port}/main"))
        caller = BlockingCaller(link.settings)
        with pytest.raises(BackendUnavailable, match="is no primary"):
            await link.call(SUM, "q")
        with pytest.raises(BackendUnavailable, match="is no primary"):
            await asyncio.to_thread(caller.call, SUM, "q")

        assert await link.call(SUM, "q") == 0
        caller.close()
        await link.close()


@pytest.mark.promise("P-95", "P-98")
async def test_a_name_that_no_sentinel_knows_is_told(server: RedisServer) -> None:
    async with puppet(naming(server)) as port:
        link = Link(located(f"redis+sentinel://127.0.0.1:{port}/another"))

        with pytest.raises(BackendUnavailable, match="no primary called 'another'"):
            await link.call(SUM, "q")
        await link.close()
