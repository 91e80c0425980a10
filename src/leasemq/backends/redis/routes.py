"""Which server a call goes to. Here: the one there is; `sentinel.py` and `cluster.py` know of several."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Protocol

from redis import exceptions as driver
from redis.asyncio import Connection

from leasemq.backends.redis.lane import Command, Lane, Reply, given_up, packed, read
from leasemq.backends.redis.settings import Address, Credentials, Settings
from leasemq.backends.redis.wiring import made


class Route(Protocol):
    """The way to the servers, in one event loop."""

    async def to(self, prefix: bytes) -> Lane:
        """Answer the lane to the server that has the keys with this prefix. Raises: BackendUnavailable."""

    async def all(self) -> Sequence[Lane]:
        """Answer the lanes to every server that takes writes. Raises: BackendUnavailable."""

    async def moved(self, error: driver.RedisError) -> None:
        """Learn where the slots are by now: a server said that one is not there."""

    async def opened(self) -> Connection:
        """Open a connection of one's own to a server that hears all pushes. Raises: as `opened` below."""

    async def close(self) -> None:
        """Finish what is under way, and close every lane."""


async def opened(
    settings: Settings, address: Address, credentials: Credentials | None = None, ask: Command = ("PING",)
) -> tuple[Connection, Reply]:
    """Open a connection, and answer it with what the server said to a first command.

    Raises: RedisError, OSError, TimeoutError.
    """
    connection = made(settings, address, credentials)
    is_good = False
    try:
        async with asyncio.timeout(settings.connect_timeout_ms / 1_000):
            await connection.connect()  # type: ignore[no-untyped-call]  # the driver annotates no return
            await connection.send_packed_command(packed(ask), check_health=False)
            reply = await read(connection)
        if isinstance(reply, driver.RedisError):
            raise reply
        is_good = True
        return connection, reply
    finally:
        if not is_good:
            await given_up(connection)


class Single:
    """One server."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._lane = Lane(settings, settings.place, self.opened)

    async def to(self, prefix: bytes) -> Lane:
        """See `Route.to`."""
        return self._lane

    async def all(self) -> Sequence[Lane]:
        """See `Route.all`."""
        return (self._lane,)

    async def moved(self, error: driver.RedisError) -> None:
        """See `Route.moved`. A server alone says so only if it belongs to a Cluster: nothing helps."""

    async def opened(self) -> Connection:
        """See `Route.opened`."""
        connection, _ = await opened(self._settings, self._settings.addresses[0])
        return connection

    async def close(self) -> None:
        """See `Route.close`."""
        await self._lane.close()
