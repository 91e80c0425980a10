"""One listener and one reader for all who wait for something in a connection: nobody polls for himself.

Pushes are hints. So what somebody looks for is read when it is pushed, and from time to time in any case.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from typing import Generic, NoReturn, Protocol, TypeVar

from leasemq.backend import Backend, Listener
from leasemq.clock import boot_ms
from leasemq.errors import BackendUnavailable, IndeterminateWrite
from leasemq.protocol.model import Wake

TROUBLE = (BackendUnavailable, IndeterminateWrite)
_PAUSE_MS = 500  # after the backend could not be reached

Thing = TypeVar("Thing")


class Seekers(Protocol[Thing]):
    """Those for whom a lookout is kept."""

    @property
    def is_anybody_left(self) -> bool:
        """Whether somebody still looks for something."""

    @property
    def wanted(self) -> AbstractSet[Thing]:
        """All that somebody looks for."""

    @property
    def look_every_ms(self) -> int:
        """How often all that is wanted is looked at, whatever is pushed."""

    def enlist(self, listener: Listener) -> None:
        """Tell a new listener of all that is wanted."""

    def pushed(self, wake: Wake) -> Iterable[Thing]:
        """Answer what the listener heard of."""

    async def prepare_look(self) -> None:
        """Get ready for all that is wanted to be looked at."""

    async def read(self, things: AbstractSet[Thing]) -> None:
        """Read what is still wanted of these, and tell those who look for it; what fails is read again."""

    def refuse(self, error: BaseException) -> None:
        """Tell everybody that there will be nothing more."""


class Lookout(Generic[Thing]):
    """Names what is to be read, and has it read.

    Owner: one Connection's seekers, in one event loop. The watch runs while somebody looks for something
    and is born outside a TaskGroup, because nobody's life spans that of the others; `close` ends it.

    Args:
        closed: what those hear who look for something when the connection is closed.
    """

    def __init__(self, backend: Backend, seekers: Seekers[Thing], closed: str) -> None:
        self._backend = backend
        self._seekers = seekers
        self._closed = closed
        self._unread: set[Thing] = set()
        self._poke = asyncio.Event()
        self._watch: asyncio.Task[None] | None = None
        self._is_closed = False
        self.listener: Listener | None = None  # None: it is opened, and told then of all that is wanted

    @property
    def is_watching(self) -> bool:
        """Whether a listener is kept, which is so only while somebody looks for something."""
        return self._watch is not None

    def check_open(self) -> None:
        """Refuse whoever comes too late. Raises: BackendUnavailable."""
        if self._is_closed:
            raise BackendUnavailable(self._closed)

    def name(self, things: Iterable[Thing]) -> None:
        """Have these read soon, each at most once at a time."""
        self._unread.update(things)
        if self._unread:
            self._poke.set()

    def see_to_watch(self) -> None:
        """Watch for somebody who has just come."""
        if self._watch is None and not self._is_closed:
            self._watch = asyncio.create_task(self._run())
            self._watch.add_done_callback(self._stopped)

    def rest_if_alone(self) -> None:
        """Watch no more if nobody is left."""
        if not self._seekers.is_anybody_left and self._watch is not None:
            self._watch.cancel()

    async def pause(self) -> None:
        """Wait before the next try at a backend that could not be reached. Raises: BackendUnavailable."""
        self.check_open()
        await asyncio.sleep(_PAUSE_MS / 1_000)

    async def close(self) -> None:
        """End the watch and whoever still looks for something."""
        self._is_closed = True
        self._seekers.refuse(BackendUnavailable(self._closed))
        if self._watch is not None:
            self._watch.cancel()
            await asyncio.wait({self._watch})

    def _stopped(self, watch: asyncio.Task[None]) -> None:
        """Watch anew for those who came while it ended; a defect in a backend reaches every one of them."""
        self._watch = self.listener = None
        if not watch.cancelled() and (defect := watch.exception()) is not None:
            while isinstance(defect, BaseExceptionGroup) and len(defect.exceptions) == 1:
                defect = defect.exceptions[0]  # the group is the watch's, not theirs
            self._seekers.refuse(defect)
        elif self._seekers.is_anybody_left:
            self.see_to_watch()

    async def _run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._listen_on())
            group.create_task(self._read_on())

    async def _listen_on(self) -> NoReturn:
        """Keep a listener; while there is none, all that is wanted is looked at at each new try."""
        while True:
            try:
                async with self._backend.listen(()) as listener:
                    self._seekers.enlist(listener)
                    self.listener = listener
                    await self._hear(listener)
            except TROUBLE:
                self.listener = None
            self.name(self._seekers.wanted)
            await asyncio.sleep(_PAUSE_MS / 1_000)

    async def _hear(self, listener: Listener) -> NoReturn:
        """Name what was pushed, and from time to time all that is wanted."""
        looked_ms = 0
        while True:
            every_ms = self._seekers.look_every_ms
            if boot_ms() - looked_ms >= every_ms:
                looked_ms = boot_ms()
                await self._seekers.prepare_look()
                self.name(self._seekers.wanted)
            wake = await listener.wait(max(1, looked_ms + every_ms - boot_ms()))
            self.name(self._seekers.pushed(wake))

    async def _read_on(self) -> NoReturn:
        while True:
            await self._poke.wait()
            self._poke.clear()
            unread, self._unread = self._unread & self._seekers.wanted, set()
            await self._seekers.read(unread)
