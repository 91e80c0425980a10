"""Which server a call goes to: the one there is, the one Sentinels name, or a slot's node in a Cluster."""

from __future__ import annotations

import asyncio
from typing import Protocol

from redis import exceptions as driver
from redis.asyncio import Connection

from leasemq.backends.redis.lane import Lane, given_up, read
from leasemq.backends.redis.settings import Address, Credentials, Layout, Settings
from leasemq.backends.redis.wiring import made


class Route(Protocol):
    """The way to the servers, in one event loop."""

    async def to(self, prefix: bytes) -> Lane:
        """Answer the lane to the server that has keys with this prefix. Raises: BackendUnavailable."""

    async def any(self) -> Lane:
        """Answer the lane to one server that takes writes. Raises: BackendUnavailable."""

    async def moved(self, error: driver.RedisError) -> None:
        """Learn where slots are now, because a server said that one is not there."""

    async def where(self) -> Address:
        """Answer the address of one server that takes writes, for a connection of one's own."""

    async def close(self) -> None:
        """Finish what is under way, and close every lane."""


def route(settings: Settings) -> Route:
    """Answer the way to the servers as they stand together."""
    match settings.layout:
        case Layout.SINGLE:
            return Single(settings)
    raise NotImplementedError


async def connected(
    settings: Settings, address: Address, credentials: Credentials | None = None
) -> Connection:
    """Open a connection on which the server has answered. Raises: RedisError, OSError, TimeoutError."""
    connection = made(settings, address, credentials)
    is_good = False
    try:
        async with asyncio.timeout(settings.connect_timeout_ms / 1_000):
            await connection.connect()  # type: ignore[no-untyped-call]  # the driver annotates no return
            await connection.send_packed_command(connection.pack_command("PING"), check_health=False)
            reply = await read(connection)
        if isinstance(reply, driver.RedisError):
            raise reply
        is_good = True
        return connection
    finally:
        if not is_good:
            await given_up(connection)


class Single:
    """One server."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._lane = Lane(settings, settings.place, self._connected)

    async def to(self, prefix: bytes) -> Lane:
        """See `Route.to`."""
        return self._lane

    async def any(self) -> Lane:
        """See `Route.any`."""
        return self._lane

    async def moved(self, error: driver.RedisError) -> None:
        """See `Route.moved`. One server alone can only say so if it belongs to a Cluster."""

    async def where(self) -> Address:
        """See `Route.where`."""
        return self._settings.addresses[0]

    async def close(self) -> None:
        """See `Route.close`."""
        await self._lane.close()

    async def _connected(self) -> Connection:
        return await connected(self._settings, await self.where())
