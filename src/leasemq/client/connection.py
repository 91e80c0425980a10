"""An app's open backend, one per event loop, made at first use and re-made after a fork."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

from leasemq.backend import Backend
from leasemq.client.ends import Ends
from leasemq.client.feed import Feed
from leasemq.client.intake import Intake
from leasemq.client.loop_thread import explained_at_exit, loop_thread, refuse_inside_loop
from leasemq.errors import DurabilityTooLow, Refused
from leasemq.protocol.insight import Capabilities, Durability

T = TypeVar("T")

_READ_ITEMS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where an app's backend comes from. `is_shared`: one object serves every loop of the process."""

    open: Callable[[], Backend]
    is_shared: bool
    require_durability: Durability | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """A prepared backend, with those who send to it and wait on it in one event loop."""

    backend: Backend
    capabilities: Capabilities
    intake: Intake
    ends: Ends
    feed: Feed

    async def close(self) -> None:
        """Finish what is under way, then give the backend back."""
        try:
            await self.feed.close()
            await self.ends.close()
            await self.intake.close()
        finally:  # also when whoever closes is cancelled meanwhile
            await self.backend.close()


@dataclass(slots=True)
class _Place:
    """What one event loop has. Owned by Connections."""

    opening: asyncio.Lock = field(default_factory=asyncio.Lock)
    connection: Connection | None = None
    guard: AsyncGenerator[None, None] | None = None
    users: int = 0  # how many `async with app` are inside


class Connections:
    """The connections of one app. Owner: the App; each is used in its own loop only.

    A backend that lives in one process (memory) is one object for all loops, so that the synchronous
    face and the asynchronous one see the same jobs.
    """

    def __init__(self, source: Callable[[], Source]) -> None:
        self._source = source
        self._pid = os.getpid()
        self._places: dict[asyncio.AbstractEventLoop, _Place] = {}
        self._sharing = threading.Lock()
        self._shared: Backend | None = None
        self._is_elsewhere = False  # opened from another source than its own
        self._of_the_parent: list[object] = []

    async def here(self) -> Connection:
        """Answer the running loop's connection, opened if it is not.

        Raises: InvalidSetting, Unsupported, DurabilityTooLow, BackendUnavailable.
        """
        while True:
            place = self._place()
            if place.connection is not None:
                return place.connection
            async with place.opening:
                if self._place() is not place:
                    continue  # it was given up while we waited
                if place.connection is None:
                    connection = await self._opened()
                    place.guard = _closing(connection)
                    await anext(place.guard)
                    place.connection = connection
                    loop_thread().at_close(id(self), self.close_here)
                return place.connection

    def open_here(self) -> Connection | None:
        """Answer the running loop's connection if it is open."""
        return self._place().connection

    async def enter(self) -> Connection:
        """Open for one user more."""
        place = self._place()
        place.users += 1
        opened = False
        try:
            connection = await self.here()
            opened = True
        finally:
            if not opened:
                place.users -= 1
        return connection

    async def leave(self) -> None:
        """Close when the last user has left."""
        place = self._place()
        place.users = max(0, place.users - 1)
        if place.users == 0:
            await self.close_here()

    @contextmanager
    def coming_from(self, source: Callable[[], Source]) -> Iterator[None]:
        """Open from another source meanwhile; what is open now is used again afterwards. For tests.

        Raises: Refused if that is so already: whoever ends first would end it for both.
        """
        if self._is_elsewhere:
            raise Refused("this app is under test already; end the first harness before the next")
        kept = self._source, self._places, self._shared
        self._source, self._places, self._shared = source, {}, None
        self._is_elsewhere = True
        try:
            yield
        finally:
            self._source, self._places, self._shared = kept
            self._is_elsewhere = False

    def call(self, work: Callable[[], Coroutine[Any, Any, T]], instead: str) -> T:
        """Run a coroutine for a caller without a loop. Raises: SyncInsideLoop, and whatever it raises."""
        return loop_thread().call(work, instead)

    def iterate(
        self, make: Callable[[], AsyncGenerator[T, None]], instead: str, *, at_once: int = _READ_ITEMS
    ) -> Iterator[T]:
        """Answer what an asynchronous generator yields, for a caller without a loop.

        Read `at_once` at a time: 1 if the generator waits for each. Raises: SyncInsideLoop, at once; and
        whatever the generator raises.
        """
        refuse_inside_loop(instead)
        return self._read(make(), instead, at_once)

    def _read(self, items: AsyncGenerator[T, None], instead: str, at_once: int) -> Iterator[T]:
        try:
            while read := self.call(lambda: _some(items, at_once), instead):
                yield from read
        finally:
            self.call(items.aclose, instead)

    async def close_here(self) -> None:
        """Close the running loop's connection, if there is one; the next use opens anew."""
        loop = asyncio.get_running_loop()
        place = self._places.get(loop)
        if place is None:
            return
        async with place.opening:  # what is being opened would be left open, as nobody's
            guard, place.guard, place.connection = place.guard, None, None
            loop_thread().forget(id(self))
            if place.users == 0 and self._places.get(loop) is place:
                del self._places[loop]
            if guard is not None:
                await guard.aclose()

    def _place(self) -> _Place:
        if self._pid != os.getpid():
            self._forget_parent()
        loop = asyncio.get_running_loop()
        place = self._places.get(loop)
        if place is None:
            closed = [other for other in self._places if other.is_closed()]
            for other in closed:
                del self._places[other]
            place = self._places[loop] = _Place()
        return place

    def _forget_parent(self) -> None:
        """Use nothing that a fork copied. It is kept: collecting it would close the parent's files."""
        self._of_the_parent.append((self._places, self._shared))
        self._places, self._shared = {}, None
        self._sharing = threading.Lock()  # another thread may have held it when the fork copied it
        self._pid = os.getpid()

    async def _opened(self) -> Connection:
        source = self._source()
        backend = self._shared_backend(source) if source.is_shared else source.open()
        kept = False
        try:
            with explained_at_exit():
                capabilities = await backend.prepare()
            _check_durability(capabilities, source.require_durability)
            kept = True
        finally:
            if not kept:
                await backend.close()
        return Connection(
            backend=backend,
            capabilities=capabilities,
            intake=Intake(backend),
            ends=Ends(backend),
            feed=Feed(backend),
        )

    def _shared_backend(self, source: Source) -> Backend:
        with self._sharing:
            if self._shared is None:
                self._shared = source.open()
            return self._shared


async def _some(items: AsyncGenerator[T, None], limit: int) -> list[T]:
    """Answer the next items, at most so many that a caller who stops early has not waited for all."""
    read: list[T] = []
    while len(read) < limit:
        try:
            read.append(await anext(items))
        except StopAsyncIteration:
            break
    return read


async def _closing(connection: Connection) -> AsyncGenerator[None, None]:
    """Close the connection when this generator is closed: by its owner, else by the end of `asyncio.run`.

    A loop closes the generators that began in it before it ends, so an app that nobody closed leaves
    no thread and no open file behind.
    """
    try:
        yield
    finally:
        await connection.close()


def _check_durability(capabilities: Capabilities, required: Durability | None) -> None:
    if required is not None and capabilities.durability < required:
        raise DurabilityTooLow(
            f"the {capabilities.backend} backend keeps jobs to class {capabilities.durability}, but "
            f"require_durability={required.value!r}; use a backend or a set-up that reaches it"
        )
