"""The primary that Sentinels name, asked for anew at each connection.

See https://redis.io/docs/latest/develop/reference/sentinel-clients/: the first Sentinel that answers is
believed, and the server itself must say that it is a primary.
"""

from __future__ import annotations

from collections.abc import Sequence

from redis import exceptions as driver
from redis.asyncio import Connection

from leasemq.backends.redis.faults import text_of
from leasemq.backends.redis.lane import Lane, given_up
from leasemq.backends.redis.routes import opened
from leasemq.backends.redis.settings import Address, Settings


class Sentinels:
    """The way to a primary behind Sentinels. Owner: the Link, in one loop."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._sentinels = list(settings.addresses)  # the one that answered last comes first
        self._lane = Lane(settings, settings.place, self.opened)

    async def to(self, prefix: bytes) -> Lane:
        """See `Route.to`."""
        return self._lane

    async def all(self) -> Sequence[Lane]:
        """See `Route.all`."""
        return (self._lane,)

    async def moved(self, error: driver.RedisError) -> None:
        """See `Route.moved`. Behind Sentinels there are no slots."""

    async def opened(self) -> Connection:
        """See `Route.opened`."""
        address = await self._primary()
        connection, role = await opened(self._settings, address, ask=("ROLE",))
        if not is_primary(role):
            await given_up(connection)
            raise driver.ConnectionError(f"{address}, which Sentinel names, is no primary")
        return connection

    async def close(self) -> None:
        """See `Route.close`."""
        await self._lane.close()

    async def _primary(self) -> Address:
        """Ask the Sentinels, one after the other. Raises: RedisError."""
        said: list[str] = []
        for place, sentinel in enumerate(self._sentinels):
            try:
                found = await self._asked(sentinel)
            except (driver.RedisError, OSError, TimeoutError) as error:
                said.append(f"{sentinel}: {text_of(error) or type(error).__name__}")
                continue
            self._sentinels.insert(0, self._sentinels.pop(place))
            return found
        raise driver.ConnectionError(f"no Sentinel names a primary: {'; '.join(said)}")

    async def _asked(self, sentinel: Address) -> Address:
        settings = self._settings
        connection, reply = await opened(
            settings, sentinel, settings.sentinel_credentials, named_by_sentinel(settings.service)
        )
        await given_up(connection)
        return told_by_sentinel(reply, settings.service)


def named_by_sentinel(service: str) -> tuple[str, ...]:
    """Answer the question for a service's primary."""
    return ("SENTINEL", "GET-MASTER-ADDR-BY-NAME", service)


def told_by_sentinel(reply: object, service: str) -> Address:
    """Read a Sentinel's answer. Raises: ConnectionError if it knows no such service."""
    match reply:
        case [bytes() as host, bytes() as port]:
            return Address(host.decode(), int(port))
    raise driver.ConnectionError(f"it knows no primary called {service!r}")


def is_primary(role: object) -> bool:
    """Whether a server's answer to ROLE says that it takes writes."""
    return isinstance(role, list) and bool(role) and role[0] == b"master"
