"""Fixtures for what is special to SQLite: a file, backends on it, and a look behind their back."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from leasemq.backends.sqlite import SqliteBackend
from leasemq.testing.manual_clock import ManualClock

Open = Callable[..., Awaitable[SqliteBackend]]
Peek = Callable[..., Awaitable[list[Any]]]  # Any: whatever the query answers


@pytest.fixture
def clock() -> ManualClock:
    """The store's clock."""
    return ManualClock()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the store is."""
    return tmp_path / "jobs.db"


@pytest_asyncio.fixture
async def opened(path: Path, clock: ManualClock) -> AsyncIterator[Open]:
    """Make prepared backends on the file, as so many processes would; all are closed at the end."""
    made: list[SqliteBackend] = []

    async def make(**settings: Any) -> SqliteBackend:  # Any: the backend's own settings
        backend = SqliteBackend(path, **{"clock": clock, "sync": "normal", **settings})
        made.append(backend)
        await backend.prepare()
        return backend

    yield make
    for backend in made:
        await backend.close()


@pytest_asyncio.fixture
async def backend(opened: Open) -> SqliteBackend:
    """One backend on the file."""
    return await opened()


@pytest.fixture
def peek(path: Path) -> Peek:
    """Run a statement on the file as an outsider, and answer its rows."""

    def run(sql: str, *values: object) -> list[Any]:  # Any: whatever the query answers
        with closing(sqlite3.connect(path)) as file, file:
            return file.execute(sql, values).fetchall()

    return lambda sql, *values: asyncio.to_thread(run, sql, *values)


@pytest.fixture(autouse=True)
def backend_name() -> str:
    """The backend that these tests show promises on."""
    return "sqlite"
