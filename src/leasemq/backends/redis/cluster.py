"""A Cluster: each queue's keys are in one slot, and each slot on one primary, which may change.

`MOVED` is followed: what a node says so of, it has not begun. `ASK` is not. It is said while a slot's keys
move one by one, and a script that computes its keys would find some of them on neither side; until the move
is over, its queues are unavailable.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from redis import exceptions as driver
from redis.asyncio import Connection
from redis.crc import key_slot

from leasemq.backends.redis.faults import refused, text_of, unreachable
from leasemq.backends.redis.lane import Lane
from leasemq.backends.redis.routes import opened
from leasemq.backends.redis.settings import Address, Settings
from leasemq.errors import BackendUnavailable, LeaseMQError, Unsupported


@dataclass(frozen=True, slots=True)
class _Span:
    """A range of slots and who has it."""

    first: int
    last: int
    primary: Address
    replicas: tuple[Address, ...]


class Cluster:
    """The way to the primaries of a Cluster. Owner: the Link, in one loop."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._lanes: dict[Address, Lane] = {}
        self._spans: list[_Span] = []
        self._version = 0  # of the map
        self._silent: set[Address] = set()  # those that did not tell it when they were asked last
        self._is_stale = True
        self._refreshing = asyncio.Lock()

    async def to(self, prefix: bytes) -> Lane:
        """See `Route.to`."""
        if self._is_stale:
            await self._refresh(self._version)
        slot = key_slot(prefix)
        place = bisect_right(self._spans, slot, key=lambda span: span.first) - 1
        if place < 0 or self._spans[place].last < slot:
            self._is_stale = True
            raise BackendUnavailable(
                f"no node of {self._settings.place} has slot {slot}: is the Cluster whole?"
            )
        return self._lane(self._spans[place].primary)

    async def all(self) -> Sequence[Lane]:
        """See `Route.all`."""
        if self._is_stale:
            await self._refresh(self._version)
        return [self._lane(address) for address in dict.fromkeys(span.primary for span in self._spans)]

    async def moved(self, error: driver.RedisError) -> None:
        """See `Route.moved`."""
        await self._refresh(self._version)

    async def opened(self) -> Connection:
        """See `Route.opened`. What is published on one node is told on all."""
        missing = driver.ConnectionError("no node is known")
        for address in self._known():
            try:
                connection, _ = await opened(self._settings, address)
            except (driver.RedisError, OSError, TimeoutError) as error:
                missing = driver.ConnectionError(f"{address}: {text_of(error) or type(error).__name__}")
                continue
            return connection
        raise missing

    async def close(self) -> None:
        """See `Route.close`."""
        for lane in self._lanes.values():
            await lane.close()

    def _lane(self, address: Address) -> Lane:
        lane = self._lanes.get(address)
        if lane is None:
            lane = self._lanes[address] = Lane(
                self._settings, str(address), partial(self._connected, address)
            )
        return lane

    async def _connected(self, address: Address) -> Connection:
        self._is_stale = True  # whoever connects anew lost a node, or knows it too little: look again after
        connection, _ = await opened(self._settings, address)
        return connection

    def _known(self) -> Iterable[Address]:
        """Answer every node that we know, those that were silent last."""
        replicas = (address for span in self._spans for address in span.replicas)
        primaries = (span.primary for span in self._spans)
        found = dict.fromkeys((*primaries, *self._settings.addresses, *replicas))
        return sorted(found, key=lambda address: address in self._silent)

    async def _refresh(self, seen: int) -> None:
        """Read the map, unless somebody did since it had the version `seen`. Raises: BackendUnavailable."""
        async with self._refreshing:
            if self._version != seen:
                return
            self._spans = await self._asked()
            self._version += 1
            self._is_stale = False

    async def _asked(self) -> list[_Span]:
        missing: LeaseMQError = unreachable(driver.ConnectionError("no node answers"), self._settings.place)
        for address in self._known():
            try:
                reply = await self._lane(address).ask(("CLUSTER", "SLOTS"), "CLUSTER SLOTS", is_read=True)
            except BackendUnavailable as error:
                self._silent.add(address)
                missing = error
                continue
            if isinstance(reply, driver.RedisError):
                if "cluster support disabled" in text_of(reply):
                    raise Unsupported(f"{address} belongs to no Cluster: use redis://") from reply
                missing = refused(reply, "CLUSTER SLOTS", str(address), is_read=True)
                continue
            if spans := sorted(spans_of(reply, address), key=lambda span: span.first):
                self._silent.discard(address)
                return spans
        raise missing


def spans_of(reply: object, asked: Address) -> Iterator[_Span]:
    """Read the answer to CLUSTER SLOTS; a node without a host is where the one that was asked is.

    Raises: BackendUnavailable for what is no such answer.
    """
    if not isinstance(reply, list):
        return
    for entry in reply:
        match entry:
            case [int() as first, int() as last, primary, *replicas]:
                nodes = [_node(node, asked) for node in (primary, *replicas)]
                yield _Span(first, last, nodes[0], tuple(nodes[1:]))


def _node(node: object, asked: Address) -> Address:
    match node:
        case [bytes() as host, int() as port, *_]:
            return Address(host.decode() or asked.host, port)
        case [None, int() as port, *_]:
            return Address(asked.host, port)
    raise BackendUnavailable(f"{asked} names a node of its Cluster in a way of its own: {node!r:.100}")
