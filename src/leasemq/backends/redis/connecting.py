"""Every call to the store: a script by its digest, on the server that has the queue."""

from __future__ import annotations

import asyncio
import os
from typing import Protocol

from leasemq.backends.redis.faults import code_of, refused
from leasemq.backends.redis.keys import queue_prefix, tag_prefix
from leasemq.backends.redis.lane import Answered, Command, Reply, Word
from leasemq.backends.redis.routes import Route, route
from leasemq.backends.redis.settings import Settings
from leasemq.errors import BackendUnavailable

_NOSCRIPTS = 5  # times that a script is loaded for one call; somebody may empty the cache all the time
_HOPS = 5  # times that one call follows its slot to another node


class Script(Protocol):
    """What a call needs to know of a script."""

    @property
    def name(self) -> str:
        """What it does, for people."""

    @property
    def text(self) -> str:
        """All of it, as the server gets it."""

    @property
    def sha(self) -> str:
        """The SHA-1 of the text, in hexadecimal."""

    @property
    def is_read(self) -> bool:
        """Whether it writes nothing."""


class Link:
    """The store, for one backend object; each event loop and each process has connections of its own."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._pid = os.getpid()
        self._routes: dict[asyncio.AbstractEventLoop, Route] = {}
        self._is_closed = False

    async def call(self, script: Script, queue: str, *args: Word) -> Reply:
        """Run a script on a queue: KEYS[1] is the prefix of its keys.

        Raises: BackendUnavailable, BackendFull, IndeterminateWrite, CorruptRecord, Unsupported.
        """
        return await self._call(script, queue_prefix(self.settings.namespace, queue), args)

    async def call_tag(self, script: Script, tag: str, *args: Word) -> Reply:
        """Run a script on a tag of our own. Raises: as `call`."""
        return await self._call(script, tag_prefix(self.settings.namespace, tag), args)

    async def command(self, *words: Word) -> Reply:
        """Ask one server that takes writes what changes nothing. Raises: as `call`."""
        lane = await self.route().any()
        try:
            return await lane.ask([words], str(words[0]), is_read=True)
        except Answered as error:
            raise refused(error.reply, str(words[0]), lane.place, is_read=True) from error.reply

    def open(self) -> None:
        """Take calls again after `close`."""
        self._is_closed = False

    async def close(self) -> None:
        """Finish what is under way in this loop, and close its connections. Repeatable."""
        self._is_closed = True
        self._of_this_process()
        if (found := self._routes.pop(asyncio.get_running_loop(), None)) is not None:
            await found.close()

    def route(self) -> Route:
        """Answer this loop's way to the servers. Raises: BackendUnavailable after `close`."""
        if self._is_closed:
            raise BackendUnavailable(f"the backend on {self.settings.place} is closed: prepare it again")
        self._of_this_process()
        loop = asyncio.get_running_loop()
        found = self._routes.get(loop)
        if found is None:
            for ended in [other for other in self._routes if other.is_closed()]:
                del self._routes[ended]
            found = self._routes[loop] = route(self.settings)
        return found

    def _of_this_process(self) -> None:
        """Use nothing that a fork copied: the parent has the other end, and the same selector."""
        if self._pid != os.getpid():
            _OF_PARENTS.append(self._routes)
            self._routes = {}
            self._pid = os.getpid()

    async def _call(self, script: Script, prefix: bytes, args: tuple[Word, ...]) -> Reply:
        call = ("EVALSHA", script.sha, 1, prefix, *args)
        commands: list[Command] = [call]
        hops = loads = 0
        while True:
            lane = await self.route().to(prefix)
            try:
                return await lane.ask(commands, script.name, is_read=script.is_read)
            except Answered as error:
                code = code_of(error.reply)
                if code == "NOSCRIPT" and loads < _NOSCRIPTS:
                    loads += 1
                    commands = [("SCRIPT", "LOAD", script.text), call]
                elif code == "MOVED" and hops < _HOPS:  # nothing was done where it is not at home
                    hops += 1
                    await self.route().moved(error.reply)
                else:
                    raise refused(
                        error.reply, script.name, lane.place, is_read=script.is_read
                    ) from error.reply


_OF_PARENTS: list[object] = []  # kept, so that nothing closes what a parent process has open
