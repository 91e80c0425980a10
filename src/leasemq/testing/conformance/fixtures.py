"""The fixtures of the suite. A backend's author adds `open_backend`, and the hooks that they can offer."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from leasemq.backend import Backend
from leasemq.testing.conformance.books import check_books
from leasemq.testing.conformance.queue_under_test import QueueUnderTest
from leasemq.testing.conformance.store import Hooks, OpenBackend, Store
from leasemq.testing.manual_clock import ManualClock

__all__ = [
    "backend",
    "books",
    "clock",
    "hooks",
    "queue",
    "second",
    "store",
]


@pytest.fixture
def hooks(request: pytest.FixtureRequest) -> Hooks:
    """What the backend's author offers beside the contract, in fixtures of these names."""
    offered = {name: _offered(request, name) for name in Hooks.__slots__}
    return Hooks(**{name: offer for name, offer in offered.items() if offer is not None})


def _offered(request: pytest.FixtureRequest, name: str) -> Any:  # Any: each hook has its own signature
    try:
        return request.getfixturevalue(name)
    except pytest.FixtureLookupError:
        return None


@pytest.fixture
def clock() -> ManualClock:
    """The store's clock, at New Year 2026 UTC."""
    return ManualClock()


@pytest_asyncio.fixture
async def store(open_backend: OpenBackend, clock: ManualClock) -> AsyncIterator[Store]:
    """A fresh store; every view opened on it is closed at the end."""
    opened = Store(open_backend=open_backend, clock=clock)
    yield opened
    await opened.close()


@pytest_asyncio.fixture
async def backend(store: Store) -> Backend:
    """The first view of the store."""
    return await store.open()


@pytest_asyncio.fixture
async def second(store: Store, backend: Backend) -> Backend:
    """Another view of the same store, as another process has it; in memory the same object."""
    return await store.open()


@pytest.fixture
def queue(backend: Backend, clock: ManualClock) -> QueueUnderTest:
    """The queue that most tests work on."""
    return QueueUnderTest(backend=backend, clock=clock)


@pytest_asyncio.fixture(autouse=True)
async def books(store: Store, backend: Backend, hooks: Hooks) -> AsyncIterator[None]:
    """Read the books at the end of every test: P-43 and nothing left over."""
    yield
    if not store.readable:
        return
    await check_books(backend)
    if hooks.find_orphans is not None:
        assert not hooks.find_orphans(), "rows or keys that belong to no job"
