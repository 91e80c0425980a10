"""Every call to the store: a script by its digest, on the server that has the queue."""

from __future__ import annotations

from typing import Protocol, assert_never

from redis.exceptions import RedisError

from leasemq.backends.redis.cluster import Cluster
from leasemq.backends.redis.faults import code_of, is_forbidden, refused
from leasemq.backends.redis.keys import queue_prefix, tag_prefix
from leasemq.backends.redis.lane import Command, Reply, Word, packed
from leasemq.backends.redis.loops import PerLoop
from leasemq.backends.redis.routes import Route, Single
from leasemq.backends.redis.sentinel import Sentinels
from leasemq.backends.redis.settings import Layout, Settings
from leasemq.errors import BackendUnavailable

_HOPS = 5  # times that one call follows its slot to another node
_LOADS: dict[str, bytes] = {}


class Script(Protocol):
    """What a call needs to know of a script."""

    @property
    def name(self) -> str:
        """What it does, for people."""

    @property
    def text(self) -> str | bytes:
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
        self.warned: set[str] = set()  # what was logged about the servers: once is enough
        self._routes = PerLoop(lambda: _route(settings))
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
        what = " ".join(map(str, words))
        lane = (await self.route().all())[0]
        answer = await lane.ask(words, what, is_read=True)
        if isinstance(answer, RedisError):
            raise refused(answer, what, lane.place, is_read=True) from answer
        return answer

    async def told(self, *words: Word) -> list[Reply]:
        """Ask every server that takes writes what changes nothing; None: we may not ask that one.

        Raises: as `call`.
        """
        what = " ".join(map(str, words))
        replies: list[Reply] = []
        for lane in await self.route().all():
            answer = await lane.ask(words, what, is_read=True)
            if not isinstance(answer, RedisError):
                replies.append(answer)
            elif is_forbidden(answer):
                replies.append(None)
            else:
                raise refused(answer, what, lane.place, is_read=True) from answer
        return replies

    def open(self) -> None:
        """Take calls again after `close`."""
        self._is_closed = False

    async def close(self) -> None:
        """Finish what is under way in this loop, and close its connections. Repeatable."""
        self._is_closed = True
        if (found := self._routes.taken()) is not None:
            await found.close()

    def route(self) -> Route:
        """Answer this loop's way to the servers. Raises: BackendUnavailable after `close`."""
        if self._is_closed:
            raise BackendUnavailable(f"the backend on {self.settings.place} is closed: prepare it again")
        return self._routes.here()

    async def _call(self, script: Script, prefix: bytes, args: tuple[Word, ...]) -> Reply:
        call: Command = ("EVALSHA", script.sha, 1, prefix, *args)
        hops = 0
        while True:
            lane = await self.route().to(prefix)
            answer = await lane.ask(call, script.name, is_read=script.is_read, load=_load(script))
            if not isinstance(answer, RedisError):
                return answer
            if code_of(answer) != "MOVED" or hops == _HOPS:  # if moved, nothing was begun where it is not
                raise refused(answer, script.name, lane.place, is_read=script.is_read) from answer
            hops += 1
            await self.route().moved(answer)


def _load(script: Script) -> bytes:
    """Answer the command that makes a server know a script."""
    load = _LOADS.get(script.sha)
    if load is None:
        load = _LOADS[script.sha] = packed(("SCRIPT", "LOAD", script.text))
    return load


def _route(settings: Settings) -> Route:
    match settings.layout:
        case Layout.SINGLE:
            return Single(settings)
        case Layout.SENTINEL:
            return Sentinels(settings)
        case Layout.CLUSTER:
            return Cluster(settings)
    assert_never(settings.layout)
