"""Who follows which queue's events: one listener and one read for all followers of a connection.

Each follower reads at its own pace, from a cursor of its own, so a slow one holds up nobody: what was read
last is kept here for all, and whoever is further behind reads for itself. The feed only marks those who
have something to read. For a follower of one job the mark says from where, so it never reads past what is
told of the others.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import islice

from leasemq.backend import Backend, Listener
from leasemq.client.lookout import TROUBLE, Lookout
from leasemq.client.portion import Portion
from leasemq.errors import CorruptRecord, CursorExpired
from leasemq.protocol.insight import BEGINNING, Event, EventPage, JobRecord
from leasemq.protocol.model import Wake

PAGE_LIMIT = 1_000
RECENT_LIMIT = 2_000  # events of one queue that are kept for whoever keeps up
_LOOK_EVERY_MS = 1_000  # pushes are hints: followed queues are looked at this often all the same,
_LOOKS_A_SECOND = 100  # but never more of them than this in a second
_CLOSED = "the app was closed while somebody followed its events"


class Follower:
    """What one reader has not read. Owner: the reader; the feed only adds marks.

    Args:
        job_id: The job whose events it wants; None: those of all jobs, also in queues yet to appear if it
            has joined `Feed.join_all`.
    """

    def __init__(self, job_id: str | None = None) -> None:
        self.job_id = job_id
        self._marks: dict[str, str] = {}
        self._failure: BaseException | None = None
        self._is_marked = asyncio.Event()

    @property
    def is_marked(self) -> bool:
        """Whether `marks` answers at once."""
        return self._is_marked.is_set()

    def mark(self, queue: str, cursor: str) -> None:
        """There is something to read in a queue, after this cursor."""
        self._marks.setdefault(queue, cursor)
        self._is_marked.set()

    def forget(self) -> None:
        """Take no notice of the marks so far: all that they tell of is about to be read."""
        self._marks = {}
        if self._failure is None:
            self._is_marked.clear()

    def fail(self, failure: BaseException) -> None:
        """There will be nothing more to read."""
        self._failure = failure
        self._is_marked.set()

    async def marks(self) -> Mapping[str, str]:
        """Wait for marks and take them: queues, each with the cursor after which there is something.

        Raises: BackendUnavailable if the connection was closed; CorruptRecord for unreadable events.
        """
        await self._is_marked.wait()
        if self._failure is not None:
            raise self._failure
        self._is_marked.clear()
        marks, self._marks = self._marks, {}
        return marks


class Tail:
    """The end of one queue's events, as far as it was read, and who follows it. Owner: the Feed."""

    def __init__(self, queue: str, start: str) -> None:
        self.queue = queue
        self.start = start  # where its first reader begins; empty: now
        self.cursor: str | None = None  # None: not read yet
        self.asked: list[asyncio.Future[None]] = []  # who waits for a read that begins after they asked
        self._followers: dict[str | None, set[Follower]] = {}
        self._recent: deque[Event] = deque()
        self._floor = ""  # the cursor before the first of them
        self._passed = 0  # events before the first of them
        self._numbers: dict[str, int] = {}  # by cursor: events up to there

    @property
    def followers(self) -> Iterator[Follower]:
        """Those who follow this queue or one of its jobs."""
        return (follower for some in self._followers.values() for follower in some)

    def has(self, follower: Follower) -> bool:
        """Whether this one is marked."""
        return follower in self._followers.get(follower.job_id, ())

    def add(self, follower: Follower) -> None:
        """Mark this one too from now on."""
        self._followers.setdefault(follower.job_id, set()).add(follower)

    def discard(self, follower: Follower) -> bool:
        """Mark it no more; answers whether nobody is left."""
        some = self._followers.get(follower.job_id, set())
        some.discard(follower)
        if not some:
            self._followers.pop(follower.job_id, None)
        return not self._followers

    def begin(self, cursor: str) -> None:
        """Stand at a cursor; whatever came before it, everybody reads for themselves."""
        for follower in self.followers:
            if self.cursor is not None or follower.job_id is None:  # who watches a job begins after this
                follower.mark(self.queue, self.cursor or cursor)
        self.cursor = self._floor = cursor
        self._recent.clear()
        self._passed = 0
        self._numbers = {cursor: 0}

    def take(self, events: Iterable[Event]) -> None:
        """Take in the events that come next, and mark whom they are for."""
        assert self.cursor is not None
        for event in events:
            for wanted in (None, event.ref.id):
                for follower in self._followers.get(wanted, ()):
                    follower.mark(self.queue, self.cursor)
            self.cursor = event.cursor
            self._recent.append(event)
            self._numbers[event.cursor] = self._passed + len(self._recent)
            if len(self._recent) > RECENT_LIMIT:
                del self._numbers[self._floor]
                self._floor = self._recent.popleft().cursor
                self._passed += 1

    def after(self, cursor: str) -> EventPage | None:
        """Answer the events after a cursor; None if it is not among those that are kept here."""
        number = self._numbers.get(cursor)
        if number is None:
            return None
        start = number - self._passed
        events = tuple(islice(self._recent, start, start + PAGE_LIMIT))
        return EventPage(events=events, cursor=events[-1].cursor if events else cursor)


class Feed:
    """Marks followers when there is something for them to read. Owner: one Connection, in one event loop."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._tails: dict[str, Tail] = {}
        self._of_all: set[Follower] = set()
        self._portion = Portion()
        self._lookout = Lookout(backend, self, _CLOSED)

    @property
    def is_watching(self) -> bool:
        """Whether a listener is kept, which is so only while somebody follows."""
        return self._lookout.is_watching

    def join(self, follower: Follower, queues: Iterable[str], *, begin: str = "") -> None:
        """Mark a follower when these queues, or its job there, have events that nobody has read yet.

        What comes after the cursor `begin` is kept for it and its like, if nobody follows the queue so far.
        Raises: BackendUnavailable if the connection was closed.
        """
        self._lookout.check_open()
        for queue in queues:
            tail = self._tails.get(queue)
            if tail is None:
                tail = self._tails[queue] = Tail(queue, begin)
                if self._lookout.listener is not None:
                    self._lookout.listener.follow([queue])
            tail.add(follower)
            self._lookout.name([queue])
        self._lookout.see_to_watch()

    def join_all(self, follower: Follower) -> None:
        """Mark a follower in queues that appear later, too, from their beginning."""
        self._of_all.add(follower)
        self._lookout.see_to_watch()

    def leave(self, follower: Follower) -> None:
        """Mark it no more."""
        self._of_all.discard(follower)
        left = [queue for queue, tail in self._tails.items() if tail.discard(follower)]
        for queue in left:
            del self._tails[queue]
        if self._lookout.listener is not None and left:
            self._lookout.listener.unfollow(left)
        self._lookout.rest_if_alone()

    async def is_read(self, queue: str) -> None:
        """Return when everything in a followed queue that is there by now was read for its followers."""
        asked: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._tails[queue].asked.append(asked)
        self._lookout.name([queue])
        await asked

    async def after(self, queue: str, cursor: str) -> EventPage:
        """Answer the events after a cursor; reads through an outage. Raises: CursorExpired, CorruptRecord."""
        tail = self._tails.get(queue)
        page = None if tail is None else tail.after(cursor)
        while page is None:
            try:
                page = await self._backend.events(queue, cursor, PAGE_LIMIT)
            except TROUBLE:
                await self._lookout.pause()
        return page

    async def records(self, queue: str, ids: Sequence[str]) -> Sequence[JobRecord | None]:
        """Answer records of some jobs, which is best `at_once`; reads through an outage.

        Raises: CorruptRecord.
        """
        while True:
            try:
                records = await self._backend.get(queue, ids)
            except TROUBLE:
                await self._lookout.pause()
            else:
                self._portion.weigh(records)
                return records

    @property
    def at_once(self) -> int:
        """How many records to ask for next, so that they do not fill the memory."""
        return self._portion.limit

    async def close(self) -> None:
        """End the watch and whoever still follows."""
        await self._lookout.close()

    # ---- as the lookout asks for it, see `Seekers`

    @property
    def is_anybody_left(self) -> bool:
        """Whether somebody follows."""
        return bool(self._tails or self._of_all)

    @property
    def wanted(self) -> AbstractSet[str]:
        """The queues that somebody follows."""
        return self._tails.keys()

    @property
    def look_every_ms(self) -> int:
        """How often all followed queues are looked at: more rarely, the more they are."""
        return max(_LOOK_EVERY_MS, len(self._tails) * 1_000 // _LOOKS_A_SECOND)

    def enlist(self, listener: Listener) -> None:
        """Hear of every followed queue."""
        listener.follow(self._tails)

    def pushed(self, wake: Wake) -> Iterable[str]:
        """Answer the queues to which events were added."""
        return wake.changed

    async def read(self, things: AbstractSet[str]) -> None:
        """Read these queues to their ends."""
        for queue in sorted(things):
            if (tail := self._tails.get(queue)) is not None:
                await self._read(tail)

    def refuse(self, error: BaseException) -> None:
        """End whoever follows, or waits for a read."""
        for follower in [*self._of_all, *(one for tail in self._tails.values() for one in tail.followers)]:
            follower.fail(error)
        for tail in self._tails.values():
            for waiter in tail.asked:
                if not waiter.done():
                    waiter.set_exception(error)

    async def prepare_look(self) -> None:
        """Let those who follow all queues join the ones that are new."""
        if not self._of_all:
            return
        names = await self._backend.queues()
        for follower in self._of_all:
            new = [name for name in names if not self._is_in(name, follower)]
            self.join(follower, new)
            for name in new:
                follower.mark(name, BEGINNING)

    def _is_in(self, queue: str, follower: Follower) -> bool:
        return queue in self._tails and self._tails[queue].has(follower)

    async def _read(self, tail: Tail) -> None:
        """Read a queue to its end, and tell those who asked for it."""
        asked = list(tail.asked)  # whoever asks from now on wants a read that begins later
        try:
            if tail.cursor is None:
                tail.begin(tail.start or (await self._backend.events(tail.queue, None, 0)).cursor)
            await self._read_to_end(tail)
        except TROUBLE:
            return  # it is read again at the next look
        except CorruptRecord as error:
            for follower in tail.followers:
                follower.fail(error)
        del tail.asked[: len(asked)]
        for waiter in asked:
            if not waiter.done():
                waiter.set_result(None)

    async def _read_to_end(self, tail: Tail) -> None:
        is_full = True
        while is_full and tail.cursor is not None:
            try:
                events = (await self._backend.events(tail.queue, tail.cursor, PAGE_LIMIT)).events
            except CursorExpired as expired:
                tail.begin(expired.earliest)
                continue
            tail.take(events)
            is_full = len(events) == PAGE_LIMIT
