"""A namespace of one test on the run's Redis or Valkey servers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
import redis

from leasemq.backend import Backend
from leasemq.backends.redis import RedisBackend
from leasemq.backends.redis.connecting import Link
from leasemq.backends.redis.keys import queue_prefix
from leasemq.backends.redis.layout import PLAIN, short
from leasemq.backends.redis.settings import located
from leasemq.clock import Clock
from leasemq.testing.conformance.store import CountStatements, PlantCorruption
from tests.servers.redis_books import misfits
from tests.servers.redis_orphans import orphans
from tests.servers.stores import counted, with_parameter

AT_ONCE = 1_000
Damage = Callable[[redis.Redis, bytes], object]  # of the record under a key


def _shortened(client: redis.Redis, key: bytes, left: int) -> None:
    record = client.get(key)
    assert isinstance(record, bytes)
    client.set(key, record[:left])


def _of_another_type(client: redis.Redis, key: bytes) -> None:
    client.delete(key)
    client.rpush(key, "what?")


def _without_run(client: redis.Redis, key: bytes) -> None:
    """Let the head say that there is a run, and nothing else."""
    client.setrange(key, 0, b"\x01" + client.getrange(key, 1, 1) + b"\x04")


def _is_plain(client: redis.Redis, key: bytes) -> bool:
    return client.getrange(key, 0, 0) == bytes((PLAIN,))


DAMAGES: tuple[
    Damage, ...
] = (  # ways in which the bytes of a stored job can be wrong; see lua/shared/records.lua
    lambda client, key: _shortened(client, key, 20),  # within its head
    lambda client, key: _shortened(client, key, -1),  # at its end
    lambda client, key: client.append(key, "more"),
    lambda client, key: client.setrange(key, 0, b"\xff"),  # an unknown version
    lambda client, key: client.setrange(key, 1, b"\xc8"),  # an unknown state
    lambda client, key: client.setrange(key, 32 if _is_plain(client, key) else 51, b"\xff\xff"),  # terms
    _without_run,
    _of_another_type,
)


class RedisStore:
    """See `ServedStore`."""

    def __init__(self, url: str, namespace: str) -> None:
        self.namespace = namespace
        self.url = with_parameter(url, f"namespace={namespace}")
        self.settings = located(self.url)
        self._open: list[redis.Redis] = []  # one per server, from the first use on

    def open(self, clock: Clock) -> Backend:
        """See `ServedStore.open`."""
        return RedisBackend(replace(self.settings, clock=clock))

    def lend_sessions(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """See `ServedStore.lend_sessions`: a new one costs next to nothing."""

    def plants(self) -> list[PlantCorruption]:
        """See `ServedStore.plants`."""
        return [self._planter(damage) for damage in DAMAGES]

    def _planter(self, damage: Damage) -> PlantCorruption:
        async def plant(queue: str, job_id: str) -> None:
            await asyncio.to_thread(self._damaged, damage, queue, job_id)

        return plant

    def _damaged(self, damage: Damage, queue: str, job_id: str) -> None:
        key = queue_prefix(self.namespace, queue) + b"j:" + short(job_id)
        (client,) = [one for one in self._clients() if self._has(one, key)]
        damage(client, key)

    @staticmethod
    def _has(client: redis.Redis, key: bytes) -> bool:
        try:
            return client.exists(key) == 1
        except redis.exceptions.RedisError:  # in a Cluster, another node's
            return False

    def counting(self, monkeypatch: pytest.MonkeyPatch) -> CountStatements:
        """See `ServedStore.counting`: each call is one request."""
        return counted(monkeypatch, Link, ("call", "call_tag"))

    def orphans(self) -> list[str]:
        """See `ServedStore.orphans`; and what does not fit the jobs in another way."""
        clients = self._clients()
        told = [line for client in clients for line in orphans(client, [*self._scan(client)])]
        return told + [line for client in clients for line in misfits(client, self.namespace)]

    def keys(self) -> list[bytes]:
        """Every key of the namespace."""
        return [key for client in self._clients() for key in self._scan(client)]

    def clear(self) -> None:
        """See `ServedStore.clear`."""
        for client in self._clients():
            with client.pipeline(transaction=False) as pipeline:
                for key in self._scan(client):
                    pipeline.delete(key)
                pipeline.execute()

    def drop(self) -> None:
        """See `ServedStore.drop`."""
        self.clear()
        while self._open:
            self._open.pop().close()

    def _scan(self, client: redis.Redis) -> Iterator[bytes]:
        yield from client.scan_iter(match=f"{self.namespace}:*", count=AT_ONCE)

    def _clients(self) -> list[redis.Redis]:
        if not self._open:
            db = self.settings.db
            self._open = [redis.Redis(host=one.host, port=one.port, db=db) for one in self.settings.addresses]
        return self._open
