"""A schema of the run's PostgreSQL with a few functions that are easy to watch, and executors on it."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import replace
from typing import Any

import psycopg
import pytest
import pytest_asyncio

from leasemq.backends.postgres.executor import Executor
from leasemq.backends.postgres.settings import Settings, located, quoted
from tests.backends.postgres.trial import Trials
from tests.servers import shared

Operator = psycopg.Connection[tuple[Any, ...]]  # Any: whatever a query answers
Opened = Callable[[Settings], Executor]


@pytest.fixture(autouse=True)
def backend_name() -> str:
    """The backend that these tests show promises on."""
    return "postgres"


@pytest.fixture(scope="session")
def postgres_url() -> str:
    """The run's server."""
    return shared("postgres")


@pytest.fixture
def operator(postgres_url: str) -> Iterator[Operator]:
    """A session of an operator, who looks and interferes."""
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        yield connection


@pytest.fixture
def schema(operator: Operator) -> Iterator[str]:
    """A schema of the test's own."""
    name = f"trial_{secrets.token_hex(6)}"
    operator.execute(f'CREATE SCHEMA "{name}"'.encode())
    yield name
    operator.execute(f'DROP SCHEMA "{name}" CASCADE'.encode())


@pytest.fixture
def settings(postgres_url: str, schema: str) -> Settings:
    """How the test's schema is used; its sessions can be told from others by their name."""
    return settings_for(postgres_url, schema)


@pytest.fixture
def trials(schema: str) -> Trials:
    """The functions of the test's schema; the first call installs them."""
    return Trials(schema)


@pytest_asyncio.fixture
async def opened(trials: Trials) -> AsyncIterator[Opened]:
    """Make executors; all are closed at the end."""
    made: list[Executor] = []

    def make(settings: Settings) -> Executor:
        made.append(Executor(settings, trials))
        return made[-1]

    yield make
    for executor in made:
        await executor.close()


@pytest_asyncio.fixture
async def executor(opened: Opened, settings: Settings) -> Executor:
    """One executor on the test's schema, whose functions are there."""
    made = opened(settings)
    await made.call("kept")
    return made


def settings_for(url: str, schema: str, **changed: Any) -> Settings:  # Any: the fields of Settings
    """Answer settings for a schema on the server of a URL."""
    location = located(f"{url}?schema={schema}&application_name={schema}")
    made = Settings(
        conninfo=location.conninfo, place=location.place, schema=location.schema, notify=location.notify
    )
    return replace(made, **changed)


def placed(statement: str, schema: str) -> bytes:
    """Answer a statement with the schema's name in place of {s}."""
    return statement.replace("{s}", quoted(schema)).encode()


async def becomes(holds: Callable[[], object], what: str, within_s: float = 20.0) -> None:
    """Return when a condition that the server decides holds. Raises: TimeoutError, naming `what`."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + within_s
    while not holds():
        if loop.time() > deadline:
            raise TimeoutError(f"not within {within_s:g} s: {what}")
        await asyncio.sleep(0)


def asleep(operator: Operator, name: str) -> int:
    """How many sessions of this name are in a function that sleeps."""
    found = operator.execute(
        "SELECT count(*) FROM pg_stat_activity WHERE application_name = %s AND wait_event = 'PgSleep'",
        (name,),
    )
    return int(found.fetchall()[0][0])


def sessions(operator: Operator, name: str) -> int:
    """How many sessions of this name there are."""
    found = operator.execute("SELECT count(*) FROM pg_stat_activity WHERE application_name = %s", (name,))
    return int(found.fetchall()[0][0])


def end_sessions(operator: Operator, name: str) -> None:
    """End them, as an operator would; they are gone when it returns."""
    operator.execute(
        "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE application_name = %s", (name,)
    )
