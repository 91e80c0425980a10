"""Wake-ups: what scripts publish, told to those who listen. See `leasemq.backend.Listener`.

A script publishes an end only if somebody registered an interest in it, and that there are events only if
somebody follows the queue. Both lapse, so that whoever dies leaves nothing behind, and are renewed here.
The script that registers them answers which of the jobs have ended by then, so that no end falls between.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

from redis import exceptions as driver
from redis.asyncio import Connection

from leasemq.backends.redis.arguments import arguments
from leasemq.backends.redis.connecting import Link
from leasemq.backends.redis.faults import unreachable
from leasemq.backends.redis.keys import channel, unescaped
from leasemq.backends.redis.lane import given_up, packed, read
from leasemq.backends.redis.layout import long, short
from leasemq.backends.redis.loops import PerLoop
from leasemq.backends.redis.scripts import script
from leasemq.clock import boot_ms
from leasemq.errors import BackendUnavailable, IndeterminateWrite
from leasemq.hearing import Ear
from leasemq.protocol.model import Ref, Wake

INTEREST_MS = 60_000  # how long an interest stands when nobody renews it
RENEW_MS = 20_000
SILENCE_MS = 30_000  # after which a server must show that it is there

_INTEREST = script("interest")
_AT_ONCE = 1_000  # interests registered in one call
_PAUSES_MS = (10, 50, 100, 200, 500, 1_000)  # before the next attempt to listen, after so many that failed
_WOKEN, _CHANGED = 1, 2
_TOLD = struct.Struct(">BHHH")
_SIZE = struct.Struct(">H")
_GENERATION = struct.Struct(">I")


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What one script published."""

    queue: str
    woken: bool = False
    changed: bool = False
    cancels: frozenset[Ref] = frozenset()
    ended: frozenset[Ref] = frozenset()


@dataclass(slots=True)
class _Wanted:
    """What is wanted of one queue: ends of lives, and whether there are events. Owned by who made it."""

    lives: set[Ref] = field(default_factory=set)
    follows: bool = False


class RedisListener:
    """See `leasemq.backend.Listener`. Owner: the task that opened it."""

    def __init__(self, queues: Sequence[str], audience: Audience) -> None:
        self.queues = frozenset(queues)
        self.lives: set[Ref] = set()
        self.followed: set[str] = set()
        self.is_open = False
        self._trouble: BackendUnavailable | None = None
        self._audience = audience
        self._ear = Ear()

    def interest(self, refs: Iterable[Ref]) -> None:
        """See `Listener.interest`."""
        self.lives.update(refs)
        self._audience.register()

    def forget(self, refs: Iterable[Ref]) -> None:
        """See `Listener.forget`."""
        self.lives.difference_update(refs)

    def follow(self, queues: Iterable[str]) -> None:
        """See `Listener.follow`."""
        self.followed.update(queues)
        self._audience.register()

    def unfollow(self, queues: Iterable[str]) -> None:
        """See `Listener.unfollow`."""
        self.followed.difference_update(queues)

    async def wait(self, timeout_ms: int) -> Wake:
        """See `Listener.wait`. Raises: BackendUnavailable, once, while there is nobody to hear."""
        wake = await self._ear.wait(timeout_ms)
        trouble, self._trouble = self._trouble, None
        if trouble is not None:
            raise trouble
        return wake

    def hear(self, told: Told) -> None:
        """Take in what happened in a queue."""
        is_mine = told.queue in self.queues
        mine = frozenset({told.queue})
        wake = Wake(
            queues=mine if told.woken and is_mine else frozenset(),
            cancels=told.cancels if is_mine else frozenset(),
            ended=told.ended & self.lives,
            changed=mine if told.changed and told.queue in self.followed else frozenset(),
        )
        if wake != Wake():
            self._ear.hear(wake)

    def hear_of_trouble(self, trouble: BackendUnavailable) -> None:
        """The server cannot be reached."""
        self._trouble = trouble
        self._ear.hear(Wake())

    def hear_everything(self) -> None:
        """Pushes may have been lost: have all its queues looked at."""
        if self.queues:
            self._ear.hear(Wake(queues=self.queues))


class Audience:
    """The listeners of one backend object in one loop, and the one connection on which they hear.

    Its task is born outside a TaskGroup, because it spans the lives of its listeners; `close` ends it.
    """

    def __init__(self, link: Link) -> None:
        self._link = link
        self._listeners: tuple[RedisListener, ...] = ()
        self._has_news = asyncio.Event()  # there is an interest to be registered
        self._has_tried = asyncio.Event()  # to subscribe, since the last connection was lost
        self._hearing: asyncio.Task[None] | None = None
        self._heard_ms = 0  # boot clock: when the server was last heard
        self._trouble: BackendUnavailable | None = None  # why the last attempt failed

    @asynccontextmanager
    async def listen(self, queues: Sequence[str]) -> AsyncIterator[RedisListener]:
        """See `Work.listen`. Raises: BackendUnavailable while the server cannot be reached.

        A connection that can be made anew at once is no trouble: then everything is heard.
        """
        listener = RedisListener(queues, self)
        self._listeners = (*self._listeners, listener)
        try:
            if self._hearing is None:
                self._hearing = asyncio.create_task(self._hear(), name="redis listener")
                self._hearing.add_done_callback(self._ended)
            await self._has_tried.wait()
            if self._trouble is not None:
                raise BackendUnavailable(*self._trouble.args)
            listener.is_open = True
            yield listener
        finally:
            self._listeners = tuple(other for other in self._listeners if other is not listener)

    def register(self) -> None:
        """Have the new interests registered soon."""
        self._has_news.set()

    async def close(self) -> None:
        """Hear no more. Repeatable."""
        if self._hearing is not None:
            self._hearing.cancel()
            await asyncio.wait({self._hearing})

    def _ended(self, hearing: asyncio.Task[None]) -> None:
        self._hearing = None
        self._has_tried.set()
        if not hearing.cancelled():
            hearing.result()

    async def _hear(self) -> None:
        """Subscribe again and again, for as long as this is wanted."""
        failures = 0
        while True:
            try:
                connection = await self._subscribed()
            except (driver.RedisError, OSError, TimeoutError) as error:
                self._tell_trouble(unreachable(error, self._link.settings.place))
                failures += 1
            else:
                await self._hear_on(connection)
                failures = 0
            await asyncio.sleep(_PAUSES_MS[min(failures, len(_PAUSES_MS) - 1)] / 1_000)

    def _tell_trouble(self, trouble: BackendUnavailable) -> None:
        if self._trouble is None:
            for listener in self._listeners:
                if listener.is_open:
                    listener.hear_of_trouble(BackendUnavailable(*trouble.args))
        self._trouble = trouble
        self._has_tried.set()

    async def _subscribed(self) -> Connection:
        """Open a connection that hears. Raises: RedisError, OSError, TimeoutError."""
        connection = await self._link.route().opened()
        is_good = False
        try:
            async with asyncio.timeout(self._link.settings.connect_timeout_ms / 1_000):
                await _send(connection, "SUBSCRIBE", channel(self._link.settings.namespace))
                reply = await read(connection)
            if isinstance(reply, driver.RedisError):
                raise reply
            is_good = True
        finally:
            if not is_good:
                await given_up(connection)
        self._heard_ms = boot_ms()
        return connection

    async def _hear_on(self, connection: Connection) -> None:
        for listener in self._listeners:
            if listener.is_open:
                listener.hear_everything()
        self._trouble = None
        self._has_tried.set()
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._read_on(connection))
                group.create_task(self._ping_on(connection))
                group.create_task(self._register_on())
        except* (driver.RedisError, OSError):
            self._has_tried.clear()
        finally:
            await given_up(connection)

    async def _read_on(self, connection: Connection) -> None:
        while True:
            reply = await read(connection)
            self._heard_ms = boot_ms()
            match reply:
                case [b"message", _, bytes() as body]:
                    self._tell(body)

    def _tell(self, body: bytes) -> None:
        with suppress(struct.error, ValueError):  # somebody else may publish there
            told = told_by(body)
            for listener in self._listeners:
                listener.hear(told)

    async def _ping_on(self, connection: Connection) -> None:
        """Notice a server that is silent because it is not there any more. Raises: ConnectionError."""
        timeout_ms = self._link.settings.timeout_ms
        while True:
            rest_ms = self._heard_ms + SILENCE_MS - boot_ms()
            if rest_ms > 0 or not self._listeners:
                await asyncio.sleep(max(rest_ms, timeout_ms) / 1_000)
                continue
            heard_ms = self._heard_ms
            await _send(connection, "PING")
            await asyncio.sleep(timeout_ms / 1_000)
            if self._heard_ms == heard_ms:
                raise driver.ConnectionError("the server is silent")

    async def _register_on(self) -> None:
        """Register interests: the new ones at once, all of them from time to time."""
        registered: dict[str, _Wanted] = {}
        renewed_ms = boot_ms()
        while True:
            self._has_news.clear()
            is_due = boot_ms() - renewed_ms >= RENEW_MS
            if is_due:
                registered, renewed_ms = {}, boot_ms()
            wanted = self._wanted()
            try:
                for queue, all_of_it in wanted.items():
                    await self._register(queue, all_of_it, registered.get(queue, _Wanted()), is_again=is_due)
                    registered[queue] = all_of_it
            except (BackendUnavailable, IndeterminateWrite):
                await asyncio.sleep(_PAUSES_MS[-1] / 1_000)
                continue
            registered = {queue: known for queue, known in registered.items() if queue in wanted}
            with suppress(TimeoutError):
                async with asyncio.timeout(max(0, renewed_ms + RENEW_MS - boot_ms()) / 1_000):
                    await self._has_news.wait()

    def _wanted(self) -> dict[str, _Wanted]:
        wanted: dict[str, _Wanted] = {}
        for listener in self._listeners:
            for ref in listener.lives:
                wanted.setdefault(ref.queue, _Wanted()).lives.add(ref)
            for queue in listener.followed:
                wanted.setdefault(queue, _Wanted()).follows = True
        return wanted

    async def _register(self, queue: str, wanted: _Wanted, known: _Wanted, *, is_again: bool) -> None:
        """Register what is not known of a queue yet, and tell what happened before it was."""
        new = [named(ref) for ref in wanted.lives - known.lives]
        follows = wanted.follows and not known.follows
        if not new and not follows:
            return
        over: set[Ref] = set()
        for start in range(0, max(1, len(new)), _AT_ONCE):
            names = new[start : start + _AT_ONCE]
            args = arguments(self._link.settings, INTEREST_MS, int(follows), names)
            reply = await self._link.call(_INTEREST, queue, args)
            if isinstance(reply, list):
                over |= {lived(queue, name) for name in reply if isinstance(name, bytes)}
        told = Told(queue=queue, changed=follows and not is_again, ended=frozenset(over))
        for listener in self._listeners:
            listener.hear(told)


class Audiences:
    """Each loop's audience. Owner: the backend object."""

    def __init__(self, link: Link) -> None:
        self._audiences = PerLoop(lambda: Audience(link))

    @asynccontextmanager
    async def listen(self, queues: Sequence[str]) -> AsyncIterator[RedisListener]:
        """See `Work.listen`."""
        async with self._audiences.here().listen(queues) as listener:
            yield listener

    async def close(self) -> None:
        """Hear no more in this loop. Repeatable."""
        if (found := self._audiences.taken()) is not None:
            await found.close()


def named(ref: Ref) -> bytes:
    """Answer a life of a job as scripts name it."""
    return _GENERATION.pack(ref.generation) + short(ref.id)


def lived(queue: str, name: bytes) -> Ref:
    """Answer the life that a script names. Raises: struct.error, ValueError."""
    (generation,) = _GENERATION.unpack_from(name)
    return Ref(queue=queue, id=long(name[_GENERATION.size :]), generation=generation)


def told_by(body: bytes) -> Told:
    """Read what a script published. Raises: struct.error, ValueError."""
    flags, tag_bytes, cancels, ended = _TOLD.unpack_from(body)
    at = _TOLD.size + tag_bytes
    queue = unescaped(body[_TOLD.size : at].decode())
    refs: list[Ref] = []
    for _ in range(cancels + ended):
        (size,) = _SIZE.unpack_from(body, at)
        at += _SIZE.size
        refs.append(lived(queue, body[at : at + size]))
        at += size
    return Told(
        queue=queue,
        woken=bool(flags & _WOKEN),
        changed=bool(flags & _CHANGED),
        cancels=frozenset(refs[:cancels]),
        ended=frozenset(refs[cancels:]),
    )


async def _send(connection: Connection, *words: str | bytes) -> None:
    await connection.send_packed_command(packed(words), check_health=False)
