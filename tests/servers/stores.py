"""Fresh stores of every backend, by name: what the suites that run on each of them are given."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

import pytest

from leasemq.backend import Backend
from leasemq.clock import Clock
from leasemq.testing.conformance.store import CountStatements, PlantCorruption
from tests.servers.depot import shared

LOCAL = ("memory", "sqlite")
SERVED = ("postgres", "redis", "redis-cluster")
BACKENDS = (*LOCAL, *SERVED)  # those that every run asks
CHOSEN = "LEASEMQ_TEST_BACKENDS"  # asks others: names with commas between them


def chosen(*, besides: Sequence[str] = ()) -> tuple[str, ...]:
    """The backends that this run asks, without those in `besides`."""
    asked = os.environ.get(CHOSEN)
    names = tuple(asked.split(",")) if asked else BACKENDS
    unknown = sorted(set(names) - {*LOCAL, *SERVED})
    assert not unknown, f"{CHOSEN} names {unknown}; known are {', '.join((*LOCAL, *SERVED))}"
    return tuple(name for name in names if name not in besides)


class ServedStore(Protocol):
    """One store on a server of the run. Owner: the test, which clears it."""

    url: str

    def open(self, clock: Clock) -> Backend:
        """One more view of it, not prepared."""

    def lend_sessions(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Let the sessions of this test's backends be those of earlier ones, where a new one is dear."""

    def plants(self) -> list[PlantCorruption]:
        """Ways in which the bytes of a stored job can be wrong."""

    def counting(self, monkeypatch: pytest.MonkeyPatch) -> CountStatements:
        """Count what is asked of the server from now on, by all views."""

    def orphans(self) -> list[str]:
        """What is stored and belongs to no job."""

    def clear(self) -> None:
        """Take everything out of it; what is kept about the layout stays."""

    def drop(self) -> None:
        """Take it away."""


def served_store(name: str) -> ServedStore:
    """A fresh store on the run's server of that name."""
    own = f"t{uuid.uuid4().hex[:12]}"
    if name == "postgres":
        from tests.servers.postgres_store import PostgresStore

        return PostgresStore(shared(name), own)
    from tests.servers.redis_store import RedisStore

    return RedisStore(shared(name), own)


def counted(monkeypatch: pytest.MonkeyPatch, owner: type[object], names: Sequence[str]) -> CountStatements:
    """Count the calls of methods of a class."""
    calls: list[str] = []
    for name in names:
        method = getattr(owner, name)

        def counting(
            *args: Any, _name: str = name, _method: Callable[..., Any] = method, **options: Any
        ) -> Any:  # Any: the method's own
            calls.append(_name)
            return _method(*args, **options)

        monkeypatch.setattr(owner, name, counting)
    return lambda: len(calls)


def with_parameter(url: str, parameter: str) -> str:
    """The URL with one more parameter, such as "namespace=x"."""
    return f"{url}{'&' if '?' in url else '?'}{parameter}"


def fresh_url(name: str, folder: Path) -> str:
    """The URL of a fresh store of a backend of this machine."""
    assert name in LOCAL, name
    return "memory://" if name == "memory" else f"sqlite:///{folder}/jobs.db"
