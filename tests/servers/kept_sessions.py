"""Sessions on PostgreSQL that outlive the backend that opened them, and so does what they have planned.

A new session plans every function that it calls, which takes longer than a short test takes to call them.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable
from typing import Any

import psycopg
import pytest

from leasemq.backends.postgres import schema, wire
from leasemq.backends.postgres.settings import Settings
from leasemq.backends.postgres.wire import Wire, connected, conninfo_of, is_stale

Session = psycopg.AsyncConnection[Any]  # Any: whatever a query answers
AT_REST = 10  # of one kind; a test that opens more has them ended


class KeptSessions:
    """Those at rest, by what they were opened with. Owner: the store of a process of tests."""

    def __init__(self) -> None:
        self._at_rest: dict[str, list[Session]] = defaultdict(list)
        self._lent: dict[Session, str] = {}

    def lend(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Lend them to every backend of the test, and take them back when it closes them."""

        async def lent(settings: Settings, *, synchronous_commit: bool = True) -> Session:
            return await self._lent_to(settings, synchronous_commit=synchronous_commit)

        def close(one: Wire) -> None:
            connection, one._connection = one._connection, None
            if connection is not None:
                self._take_back(connection)

        monkeypatch.setattr(wire, "connected", lent)
        monkeypatch.setattr(schema, "connected", lent)
        monkeypatch.setattr(Wire, "close", close)

    async def _lent_to(self, settings: Settings, *, synchronous_commit: bool) -> Session:
        terms = conninfo_of(settings, synchronous_commit=synchronous_commit)
        session = self._rested(terms)
        if session is None:
            session = await connected(settings, synchronous_commit=synchronous_commit)
            session.close = self._returning(session)  # type: ignore[method-assign]  for those who close it themselves
        self._lent[session] = terms
        return session

    def _rested(self, terms: str) -> Session | None:
        while self._at_rest[terms]:
            session = self._at_rest[terms].pop()
            if not is_stale(session.pgconn):
                session.lock = asyncio.Lock()  # the one that it has may belong to a loop that has ended
                return session
            session.pgconn.finish()
        return None

    def _returning(self, session: Session) -> Callable[[], Awaitable[None]]:
        async def close() -> None:
            self._take_back(session)

        return close

    def _take_back(self, session: Session) -> None:
        terms = self._lent.pop(session, None)
        if terms is None or is_stale(session.pgconn) or len(self._at_rest[terms]) == AT_REST:
            session.pgconn.finish()
        else:
            self._at_rest[terms].append(session)

    def end(self) -> None:
        """End all that are at rest."""
        for sessions in self._at_rest.values():
            for session in sessions:
                session.pgconn.finish()
        self._at_rest.clear()
