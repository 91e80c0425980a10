"""Wake-ups: what was committed, told to those who listen. See `leasemq.backend.Listener`."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from leasemq.backends.sqlite.step import Heard
from leasemq.hearing import Ear
from leasemq.protocol.model import Ref, Wake

_OWN_STEPS = 256  # own steps remembered; one forgotten too early is told twice, which is harmless


@dataclass(frozen=True, slots=True)
class Seen:
    """How far one queue's changes were seen."""

    event_number: int
    resumes: int


class SqliteListener:
    """See `leasemq.backend.Listener`. Owner: the task that opened it; others only add to it, in its loop."""

    def __init__(self, queues: Sequence[str], seen: Mapping[str, Seen]) -> None:
        self.seen = seen
        self._ear = Ear()
        self._queues = frozenset(queues)
        self._guard = threading.Lock()  # the interest is read by the threads that hear
        self._interest: dict[str, set[Ref]] = {}
        self._followed: frozenset[str] = frozenset()

    def interest(self, refs: Iterable[Ref]) -> None:
        """See `Listener.interest`."""
        with self._guard:
            for ref in refs:
                self._interest.setdefault(ref.queue, set()).add(ref)

    def forget(self, refs: Iterable[Ref]) -> None:
        """See `Listener.forget`."""
        with self._guard:
            for ref in refs:
                self._interest.get(ref.queue, set()).discard(ref)
            self._interest = {queue: wanted for queue, wanted in self._interest.items() if wanted}

    def follow(self, queues: Iterable[str]) -> None:
        """See `Listener.follow`."""
        with self._guard:
            self._followed = self._followed.union(queues)

    def unfollow(self, queues: Iterable[str]) -> None:
        """See `Listener.unfollow`."""
        with self._guard:
            self._followed = self._followed.difference(queues)

    async def wait(self, timeout_ms: int) -> Wake:
        """See `Listener.wait`."""
        return await self._ear.wait(timeout_ms)

    def watched(self) -> frozenset[str]:
        """Answer the queues in which something may happen that it wants to hear of."""
        with self._guard:
            return self._queues.union(self._interest, self._followed)

    def interest_in(self, queue: str) -> frozenset[Ref]:
        """Answer the jobs of one queue whose end it wants to hear of."""
        with self._guard:
            return frozenset(self._interest.get(queue, ()))

    def hear(self, heard: Heard) -> None:
        """Take in what happened in a queue, from whatever thread."""
        is_mine = heard.queue in self._queues
        is_changed = heard.changed and heard.queue in self._followed
        ended = self._wanted(heard)
        if not ended and not is_changed and not (is_mine and (heard.woken or heard.cancels)):
            return
        mine = frozenset({heard.queue})
        self._ear.hear(
            Wake(
                queues=mine if heard.woken and is_mine else frozenset(),
                cancels=heard.cancels if is_mine else frozenset(),
                ended=ended,
                changed=mine if is_changed else frozenset(),
            )
        )

    def _wanted(self, heard: Heard) -> frozenset[Ref]:
        """Answer those of the jobs that ended which it wants to hear of."""
        if not heard.ended or heard.queue not in self._interest:
            return frozenset()
        ended = {Ref(queue=heard.queue, id=id_, generation=life) for id_, life in heard.ended}
        with self._guard:
            return frozenset(ended & self._interest.get(heard.queue, set()))


class Audience:
    """The listeners of one backend object. Owner: the backend object; any thread may speak to it."""

    def __init__(self, changed: Callable[[], None]) -> None:
        self._guard = threading.Lock()
        self._listeners: tuple[SqliteListener, ...] = ()
        self._own: deque[tuple[str, int]] = deque(maxlen=_OWN_STEPS)
        self._changed = changed  # told when somebody came or went

    @property
    def listeners(self) -> tuple[SqliteListener, ...]:
        """Those who listen now."""
        return self._listeners

    def hear(self, heard: Sequence[Heard]) -> None:
        """Tell every listener what was committed."""
        if not self._listeners:
            return
        for one in heard:
            if one.event_number:
                self._own.append((one.queue, one.event_number))
            for listener in self._listeners:
                listener.hear(one)

    def has_heard(self, queue: str, event_number: int) -> bool:
        """Whether the step that ended with this event was committed here, and so was told already."""
        return (queue, event_number) in self._own

    @contextmanager
    def listen(self, queues: Sequence[str], seen: Mapping[str, Seen]) -> Iterator[SqliteListener]:
        """Have a listener that hears what comes after `seen`."""
        listener = SqliteListener(queues, seen)
        with self._guard:
            self._listeners = (*self._listeners, listener)
        try:
            self._changed()
            yield listener
        finally:
            with self._guard:
                self._listeners = tuple(other for other in self._listeners if other is not listener)
            self._changed()
