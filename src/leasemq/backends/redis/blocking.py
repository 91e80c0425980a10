"""Calls without an event loop: one at a time, for a thread with connections of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from redis import exceptions as driver

from leasemq.backends.redis.connecting import Script
from leasemq.backends.redis.faults import broken_off, code_of, refused, text_of, unreachable
from leasemq.backends.redis.keys import queue_prefix
from leasemq.backends.redis.lane import Command, Word, packed
from leasemq.backends.redis.sentinel import is_primary, named_by_sentinel, told_by_sentinel
from leasemq.backends.redis.settings import Address, Layout, Settings
from leasemq.backends.redis.wiring import BlockingConnection, made_blocking

Attempt = Callable[[Address], BlockingConnection]

_TRIALS = 8  # of one call, as in `connecting`


class BlockingCaller:
    """Owner: one thread. What it connects to it keeps, until something fails there."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._connections: dict[Address | None, BlockingConnection] = {}  # None: to the one server there is
        self._homes: dict[bytes, Address] = {}  # where a Cluster has a queue, as far as we were told

    def call(self, script: Script, queue: str, *args: Word) -> object:
        """Run a script on a queue. Raises: as `Link.call`."""
        prefix = queue_prefix(self._settings.namespace, queue)
        call: Command = ("EVALSHA", script.sha, 1, prefix, *args)
        commands = [call]
        trial = 0
        while True:
            trial += 1
            home = self._homes.get(prefix)
            reply = self._asked(home, commands, script)
            if not isinstance(reply, driver.RedisError):
                return reply
            code = code_of(reply)
            if isinstance(reply, driver.MovedError) and trial < _TRIALS:
                self._homes[prefix] = _new_home(reply, home, self._settings)
                commands = [call]
            elif code == "NOSCRIPT" and trial < _TRIALS:
                commands = [("SCRIPT", "LOAD", script.text), call]
            else:
                self._given_up(home)
                raise refused(reply, script.name, self._settings.place, is_read=script.is_read) from reply

    def close(self) -> None:
        """Close every connection; the next call opens anew."""
        for connection in self._connections.values():
            connection.disconnect()
        self._connections.clear()

    def _asked(self, home: Address | None, commands: list[Command], script: Script) -> object:
        """Send the commands together; answer the last reply, which may be an error. Raises: LeaseMQError."""
        try:
            connection = self._connected(home)
        except (driver.RedisError, OSError) as error:
            self._homes.clear()
            raise unreachable(error, self._settings.place) from error
        try:
            connection.send_packed_command([packed(command) for command in commands], check_health=False)
            replies = [_reply(connection) for _ in commands]
        except (driver.RedisError, OSError) as error:
            self._given_up(home)
            why = text_of(error) or type(error).__name__
            raise broken_off(why, script.name, self._settings.place, is_read=script.is_read) from error
        return replies[-1]

    def _connected(self, home: Address | None) -> BlockingConnection:
        """Answer an open connection. Raises: RedisError, OSError."""
        connection = self._connections.get(home)
        if connection is not None and _is_idle(connection):
            return connection
        self._given_up(home)
        settings = self._settings
        if home is not None:
            connection = _opened(made_blocking(settings, home))
        elif settings.layout is Layout.SENTINEL:
            connection = _first(settings.addresses, lambda address: _primary(settings, address))
        else:
            connection = _first(settings.addresses, lambda address: _opened(made_blocking(settings, address)))
        self._connections[home] = connection
        return connection

    def _given_up(self, home: Address | None) -> None:
        if (connection := self._connections.pop(home, None)) is not None:
            connection.disconnect()
            self._homes = {prefix: found for prefix, found in self._homes.items() if found != home}


def _new_home(moved: driver.MovedError, asked: Address | None, settings: Settings) -> Address:
    """Answer where a node says that the queue is; one without a host is where the asked one is."""
    return Address(moved.host or (asked or settings.addresses[0]).host, moved.port)


def _first(addresses: Iterable[Address], attempt: Attempt) -> BlockingConnection:
    """Answer what succeeds first. Raises: the last error."""
    failed: driver.RedisError | OSError = driver.ConnectionError("no address is known")
    for address in addresses:
        try:
            return attempt(address)
        except (driver.RedisError, OSError) as error:
            failed = error
    raise failed


def _primary(settings: Settings, sentinel: Address) -> BlockingConnection:
    """Open a connection to the primary that a Sentinel names. Raises: RedisError, OSError."""
    asking = _opened(made_blocking(settings, sentinel, settings.sentinel_credentials))
    try:
        address = told_by_sentinel(_asked(asking, named_by_sentinel(settings.service)), settings.service)
    finally:
        asking.disconnect()
    connection = _opened(made_blocking(settings, address))
    if is_primary(_asked(connection, ("ROLE",))):
        return connection
    connection.disconnect()
    raise driver.ConnectionError(f"{address}, which Sentinel names, is no primary")


def _is_idle(connection: BlockingConnection) -> bool:
    """Whether there is nothing to be read on it: neither its end nor somebody's answer."""
    try:
        return connection.is_connected and not connection.can_read(0)
    except (driver.RedisError, OSError):
        return False


def _opened(connection: BlockingConnection) -> BlockingConnection:
    connection.connect()
    return connection


def _asked(connection: BlockingConnection, command: Command) -> object:
    """Answer one reply. Raises: RedisError."""
    connection.send_packed_command([packed(command)], check_health=False)
    reply = _reply(connection)
    if isinstance(reply, driver.RedisError):
        connection.disconnect()
        raise reply
    return reply


def _reply(connection: BlockingConnection) -> object:
    """Answer the next reply, which may be an error. Raises: what the driver does when the connection ends."""
    try:
        return connection.read_response(disconnect_on_error=False)
    except driver.ResponseError as error:
        return error
    except driver.ConnectionError as error:
        if error.status_code is None:
            raise
        return error
