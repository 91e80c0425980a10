"""How each kind of session is used: the driver's own, and SQLAlchemy's over it, in a thread or in a loop."""

from __future__ import annotations

from typing import Any, Protocol

import psycopg
from psycopg import AsyncConnection, Connection

from leasemq.backends.postgres.resting import BlockConnection, BlockingConnection, Driver
from leasemq.errors import InvalidSession
from leasemq.sessions import (
    is_of_sqlalchemy,
    joined_connection,
    kind_of,
    of_scope,
    run_sync_of,
    suspends,
    understood,
)

_REMEDY = "pass a psycopg connection, or SQLAlchemy's connection or session over postgresql+psycopg://"


class Reach(Protocol):
    """How one kind of session is used."""

    is_async: bool

    async def driver(self) -> Driver:
        """Answer the driver's connection, in its transaction. Raises: InvalidSession."""

    async def commit(self) -> None:
        """Commit, the way its owner would."""

    async def roll_back(self) -> None:
        """Roll back, the way its owner would."""


def reach_of(session: object) -> Reach:
    """Answer how a session is used. Raises: InvalidSession."""
    if isinstance(session, AsyncConnection):
        return Awaited(session)
    if isinstance(session, Connection):
        return Plain(session)
    if is_of_sqlalchemy(session):
        return Suspending(session) if suspends(session) else Wrapped(session)
    raise InvalidSession(f"{kind_of(session)} is no session of PostgreSQL's: {_REMEDY}")


class Plain:
    """A connection of the driver, in the thread that calls."""

    is_async = False

    def __init__(self, driver: Connection[Any]) -> None:
        self._driver = driver

    async def driver(self) -> Driver:
        """See `Reach.driver`."""
        return self._driver

    async def commit(self) -> None:
        """See `Reach.commit`."""
        if isinstance(self._driver, BlockingConnection):
            self._driver.end("COMMIT")
        else:
            self._driver.commit()

    async def roll_back(self) -> None:
        """See `Reach.roll_back`."""
        if isinstance(self._driver, BlockingConnection):
            self._driver.end("ROLLBACK")
        else:
            self._driver.rollback()


class Awaited:
    """An asynchronous connection of the driver."""

    is_async = True

    def __init__(self, connection: AsyncConnection[Any]) -> None:
        self.connection = connection

    async def driver(self) -> Driver:
        """See `Reach.driver`."""
        return self.connection

    async def commit(self) -> None:
        """See `Reach.commit`."""
        if isinstance(self.connection, BlockConnection):
            await self.connection.end("COMMIT")
        else:
            await self.connection.commit()

    async def roll_back(self) -> None:
        """See `Reach.roll_back`."""
        if isinstance(self.connection, BlockConnection):
            await self.connection.end("ROLLBACK")
        else:
            await self.connection.rollback()


class Wrapped:
    """SQLAlchemy's connection or session over the driver."""

    is_async = False

    def __init__(self, session: Any) -> None:
        self._session = session

    async def driver(self) -> Driver:
        """See `Reach.driver`."""
        return _of_psycopg(joined_connection(self._session).driver_connection)

    async def commit(self) -> None:
        """See `Reach.commit`."""
        with understood(self._session, _driver_error):
            self._session.commit()

    async def roll_back(self) -> None:
        """See `Reach.roll_back`."""
        with understood(self._session, _driver_error):
            self._session.rollback()


class Suspending:
    """SQLAlchemy's asynchronous connection or session over the driver."""

    is_async = True

    def __init__(self, session: Any) -> None:
        self._session = session

    async def driver(self) -> Driver:
        """See `Reach.driver`."""
        found = await run_sync_of(self._session)(lambda inner: joined_connection(inner).driver_connection)
        return _of_psycopg(found)

    async def commit(self) -> None:
        """See `Reach.commit`."""
        with understood(self._session, _driver_error):
            await of_scope(self._session).commit()

    async def roll_back(self) -> None:
        """See `Reach.roll_back`."""
        with understood(self._session, _driver_error):
            await of_scope(self._session).rollback()


def _driver_error(error: BaseException) -> Exception | None:
    return error if isinstance(error, psycopg.Error) else None


def _of_psycopg(found: object) -> Driver:
    if not isinstance(found, AsyncConnection | Connection):
        raise InvalidSession(f"the session's driver is {kind_of(found)}: {_REMEDY}")
    return found
