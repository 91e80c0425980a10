"""Servers of their own for tests that harm them, and the run's for the others."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from leasemq.backends.redis.connecting import Link
from leasemq.backends.redis.settings import located
from tests.servers import Proxy, RedisServer, shared


@pytest.fixture(autouse=True)
def backend_name() -> str:
    """What these tests show promises on."""
    return "redis"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RedisServer]:
    """A server that the test may harm."""
    with RedisServer(tmp_path / "redis", options={"enable-debug-command": "local"}) as server:
        yield server


@pytest.fixture
def proxy(server: RedisServer) -> Iterator[Proxy]:
    """A proxy before it."""
    with Proxy(server.port) as proxy:
        yield proxy


@pytest.fixture
def namespace() -> str:
    """A namespace that nobody else uses."""
    return f"t{uuid.uuid4().hex[:12]}"


@pytest.fixture
async def link(namespace: str) -> AsyncIterator[Link]:
    """The run's server, in a namespace of this test; it is not harmed."""
    settings = replace(located(shared("redis")), namespace=namespace)
    link = Link(settings)
    yield link
    await link.close()


@pytest.fixture
async def own_link(server: RedisServer) -> AsyncIterator[Link]:
    """The test's own server, with short time-outs."""
    link = Link(located(f"{server.url}?timeout_ms=300&connect_timeout_ms=300"))
    yield link
    await link.close()


@pytest.fixture
async def far_link(proxy: Proxy) -> AsyncIterator[Link]:
    """The test's own server behind the proxy, with short time-outs."""
    link = Link(located(f"redis://127.0.0.1:{proxy.port}?timeout_ms=300&connect_timeout_ms=300"))
    yield link
    await link.close()
