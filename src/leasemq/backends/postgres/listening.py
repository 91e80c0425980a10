"""Wake-ups: what other sessions did, told to those who listen. See `leasemq.backend.Listener`."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Protocol

from leasemq.backends.postgres.executor import Executor
from leasemq.backends.postgres.looks import Looks
from leasemq.backends.postgres.loops import PerLoop
from leasemq.backends.postgres.post import Post
from leasemq.backends.postgres.telling import Told, everything, read
from leasemq.backends.postgres.wishes import Wishes
from leasemq.hearing import Ear
from leasemq.protocol.model import Ref, Wake

Changed = Callable[[Iterable[Ref], Iterable[str]], None]


class PostgresListener:
    """See `leasemq.backend.Listener`. Owner: the task that opened it, in its loop."""

    def __init__(
        self, queues: Sequence[str], changed: Callable[[Iterable[Ref], Iterable[str]], None]
    ) -> None:
        self._ear = Ear()
        self.queues = frozenset(queues)
        self.wanted: set[Ref] = set()
        self.followed: set[str] = set()
        self._changed = changed  # told of whose ends and whose events are wanted more or less than before

    def interest(self, refs: Iterable[Ref]) -> None:
        """See `Listener.interest`."""
        new = set(refs) - self.wanted
        self.wanted |= new
        self._changed(new, ())

    def forget(self, refs: Iterable[Ref]) -> None:
        """See `Listener.forget`."""
        old = self.wanted.intersection(refs)
        self.wanted -= old
        self._changed(old, ())

    def follow(self, queues: Iterable[str]) -> None:
        """See `Listener.follow`."""
        new = set(queues) - self.followed
        self.followed |= new
        self._changed((), new)

    def unfollow(self, queues: Iterable[str]) -> None:
        """See `Listener.unfollow`."""
        old = self.followed.intersection(queues)
        self.followed -= old
        self._changed((), old)

    async def wait(self, timeout_ms: int) -> Wake:
        """See `Listener.wait`."""
        return await self._ear.wait(timeout_ms)

    def hear(self, told: Told) -> None:
        """Take in what happened in a queue, as far as it is wanted here."""
        mine = frozenset({told.queue})
        is_mine = told.queue in self.queues
        if told.ended is None:
            ended = {ref for ref in self.wanted if ref.queue == told.queue}
        else:
            ended = self.wanted.intersection(told.ended)
        wake = Wake(
            queues=mine if told.woken and is_mine else frozenset(),
            cancels=told.cancels if is_mine else frozenset(),
            ended=frozenset(ended),
            changed=mine if told.changed and told.queue in self.followed else frozenset(),
        )
        if wake != Wake():
            self._ear.hear(wake)

    def hear_everything(self) -> None:
        """Take in that anything may have happened."""
        for queue in self.queues | self.followed | {ref.queue for ref in self.wanted}:
            self.hear(everything(queue))


class _Source(Protocol):
    """Where what happens is heard of."""

    async def open(self) -> None:
        """Return when nothing that happens from now on is missed. Raises: BackendUnavailable."""

    async def close(self) -> None:
        """Hear no more."""

    def drop(self) -> None:
        """Hear no more: the loop is closed."""


class Audience:
    """The listeners of one loop, their common source, and what the server knows of their wishes.

    Owner: the backend object; used in its loop only.
    """

    def __init__(self, executor: Executor) -> None:
        settings = executor.settings
        self._listeners: list[PostgresListener] = []
        self._source: _Source
        self._wishes: Wishes | None = None
        if settings.notify:
            self._source = Post(settings, self._heard, self.missed)
            self._wishes = Wishes(executor, secrets.token_hex(8), self.tell, self)
        else:
            self._source = Looks(executor, self.tell, self)

    @property
    def is_anybody_there(self) -> bool:
        """Whether somebody here listens."""
        return bool(self._listeners)

    @property
    def wanted(self) -> frozenset[Ref]:
        """The jobs whose ends somebody here wants to hear of."""
        return frozenset().union(*(listener.wanted for listener in self._listeners))

    @property
    def followed(self) -> frozenset[str]:
        """The queues whose events somebody here wants to hear of."""
        return frozenset().union(*(listener.followed for listener in self._listeners))

    @property
    def queues(self) -> frozenset[str]:
        """The queues that somebody here works on."""
        return frozenset().union(*(listener.queues for listener in self._listeners))

    @asynccontextmanager
    async def listen(self, queues: Sequence[str]) -> AsyncIterator[PostgresListener]:
        """Have a listener that hears what comes from now on. Raises: BackendUnavailable."""
        listener = PostgresListener(queues, self._changed)
        self._listeners.append(listener)
        try:
            await self._source.open()
            yield listener
        finally:
            self._listeners.remove(listener)
            self._changed(listener.wanted, listener.followed)

    async def close(self) -> None:
        """Hear no more, and let the server forget the wishes."""
        await self._source.close()
        if self._wishes is not None:
            await self._wishes.close()

    def drop(self) -> None:
        """Give the session back: its loop is closed."""
        self._source.drop()

    def tell(self, told: Told) -> None:
        """Tell every listener what happened in a queue."""
        for listener in self._listeners:
            listener.hear(told)

    def missed(self) -> None:
        """Tell every listener that anything may have happened."""
        for listener in self._listeners:
            listener.hear_everything()

    def _heard(self, payload: str) -> None:
        told = read(payload)
        if told is None:  # of another release: it is about something, and pushes are hints
            self.missed()
        else:
            self.tell(told)

    def _changed(self, refs: Iterable[Ref], queues: Iterable[str]) -> None:
        if self._wishes is not None:
            self._wishes.changed(refs, queues)


class Audiences:
    """One audience per event loop, made at its first use. Owner: the backend object."""

    def __init__(self, executor: Executor) -> None:
        self._audiences: PerLoop[Audience] = PerLoop(partial(Audience, executor), Audience.drop)

    @asynccontextmanager
    async def listen(self, queues: Sequence[str]) -> AsyncIterator[PostgresListener]:
        """See `Work.listen`."""
        async with self._audiences.of(asyncio.get_running_loop()).listen(queues) as listener:
            yield listener

    async def close(self) -> None:
        """End this loop's audience; before the executor is closed. Repeatable."""
        audience = self._audiences.taken(asyncio.get_running_loop())
        if audience is not None:
            await audience.close()
