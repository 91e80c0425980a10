"""A namespace of one test on the run's Redis or Valkey servers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace

import pytest
import redis

from leasemq.backend import Backend
from leasemq.backends.redis import RedisBackend
from leasemq.backends.redis.connecting import Link
from leasemq.backends.redis.settings import located
from leasemq.clock import Clock
from leasemq.testing.conformance.store import CountStatements, PlantCorruption
from tests.servers.stores import counted, with_parameter

AT_ONCE = 1_000


class RedisStore:
    """See `ServedStore`."""

    def __init__(self, url: str, namespace: str) -> None:
        self.namespace = namespace
        self.url = with_parameter(url, f"namespace={namespace}")
        self.settings = located(self.url)

    def open(self, clock: Clock) -> Backend:
        """See `ServedStore.open`."""
        return RedisBackend(replace(self.settings, clock=clock))

    def plants(self) -> list[PlantCorruption]:
        """See `ServedStore.plants`."""
        return []

    def counting(self, monkeypatch: pytest.MonkeyPatch) -> CountStatements:
        """See `ServedStore.counting`: each call is one request."""
        return counted(monkeypatch, Link, ("call", "call_tag"))

    def orphans(self) -> list[str]:
        """See `ServedStore.orphans`."""
        return []

    def keys(self) -> list[bytes]:
        """Every key of the namespace."""
        with self._clients() as clients:
            return [key for client in clients for key in self._scan(client)]

    def clear(self) -> None:
        """See `ServedStore.clear`."""
        with self._clients() as clients:
            for client in clients:
                for key in self._scan(client):
                    client.delete(key)

    def drop(self) -> None:
        """See `ServedStore.drop`."""
        self.clear()

    def _scan(self, client: redis.Redis) -> Iterator[bytes]:
        yield from client.scan_iter(match=f"{self.namespace}:*", count=AT_ONCE)

    @contextmanager
    def _clients(self) -> Iterator[list[redis.Redis]]:
        with ExitStack() as stack:
            yield [
                stack.enter_context(closing(redis.Redis(host=one.host, port=one.port, db=self.settings.db)))
                for one in self.settings.addresses
            ]
