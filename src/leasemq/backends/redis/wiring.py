"""One connection, as the driver makes it: address, credentials, TLS, and no retries of the driver's own.

The driver's default is to repeat what failed up to ten times. A write whose answer was lost would then be
done twice without anybody knowing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, cast

from redis import Connection as SyncConnection
from redis import SSLConnection as SyncSSLConnection
from redis.asyncio import Connection, SSLConnection
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.retry import Retry as SyncRetry

from leasemq.backends.redis.settings import Address, Credentials, Settings


def made(settings: Settings, address: Address, credentials: Credentials | None = None) -> Connection:
    """Answer a connection that is not open yet. Time-outs are its user's: it may read for ever."""
    options = _options(settings, address, credentials)
    kind = Connection if settings.tls is None else SSLConnection
    return kind(**options, socket_timeout=None, retry=Retry(NoBackoff(), 0))


class BlockingConnection(Protocol):
    """What we use of the driver's synchronous connection, with its types."""

    is_connected: bool

    def connect(self) -> None:
        """Open it, with the handshake."""

    def disconnect(self) -> None:
        """Close it."""

    def send_packed_command(self, command: Sequence[bytes], check_health: bool) -> None:
        """Write it all."""

    def can_read(self, timeout: float) -> bool:
        """Whether there is something to be read, be it its end."""

    def read_response(self, *, disconnect_on_error: bool) -> object:
        """Read one reply; one that is an error is raised."""


def made_blocking(
    settings: Settings, address: Address, credentials: Credentials | None = None
) -> BlockingConnection:
    """Answer a synchronous connection that is not open yet, on which every step has the time-out."""
    options = _options(settings, address, credentials)
    kind = SyncConnection if settings.tls is None else SyncSSLConnection
    made = kind(**options, socket_timeout=settings.timeout_ms / 1_000, retry=SyncRetry(NoBackoff(), 0))
    return cast(BlockingConnection, made)


def _options(settings: Settings, address: Address, credentials: Credentials | None) -> Mapping[str, Any]:
    who = settings.credentials if credentials is None else credentials
    options: dict[str, Any] = {
        "host": address.host,
        "port": address.port,
        "db": settings.db if credentials is None else 0,  # a Sentinel has none
        "username": who.username,
        "password": who.password,
        "protocol": 2,  # pushes never come between replies, and proxies understand it
        "driver_info": None,  # or it would tell its name, in two commands more for each connection
        "socket_connect_timeout": settings.connect_timeout_ms / 1_000,
    }
    if (tls := settings.tls) is not None:
        options |= {
            "ssl_ca_certs": tls.ca_file,
            "ssl_certfile": tls.cert_file,
            "ssl_keyfile": tls.key_file,
            "ssl_cert_reqs": "required" if tls.verify else "none",
            "ssl_check_hostname": tls.verify,
        }
    return options
