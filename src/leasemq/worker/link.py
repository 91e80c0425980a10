"""Whether the backend can be reached, as all of a worker's loops see it together.

One event per change of state, not per try: the link is lost when the first loop fails, and back when
every loop that failed has succeeded again. A link that was lost again soon after is told to be back only
once it has held for a while, so a connection that flaps writes no line for each time. Where some queues
stay out of reach while others are served, those are told by name.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from leasemq.clock import Clock
from leasemq.events import BackendBack, BackendLost, Herald, QueueLost, QueueReached
from leasemq.protocol.keeping import backoff_ms

RESTLESS_MS = 10_000  # one that is lost again within this time after it was told to be back
FIRST_HOLD_MS, LONGEST_HOLD_MS = 1_000, 10_000  # for how long such a one must hold before it is told
APART_MS = 2_000  # for so long others are served while a queue is not: it is no outage of all


@dataclass(slots=True)
class _Queue:
    """One queue while the link is lost. Owned by Link."""

    since_ms: int  # in this state
    failing: int = 0  # loops
    is_told: bool = False


class Link:
    """Who cannot reach the backend at the moment. Owner: one worker, in its loop.

    `who` is what a loop does, followed by a space and its queue if it is about one.
    """

    def __init__(self, herald: Herald, clock: Clock, dice: Callable[[], float]) -> None:
        self._herald = herald
        self._clock = clock
        self._dice = dice
        self._failures: dict[str, int] = {}
        self._queues: dict[str, _Queue] = {}  # those heard of since the link was lost
        self._lost_ms = 0
        self._is_told = False  # that it was lost, and not yet that it is back
        self._back_ms: int | None = None  # when it was last told to be back
        self._hold_ms = 0
        self._holding: asyncio.TimerHandle | None = None
        self._hope = asyncio.Event()
        self.on_hope: Callable[[], None] = lambda: None  # told when somebody who failed got through

    @property
    def is_up(self) -> bool:
        """Whether every loop's last request was answered. From any thread."""
        return not self._failures

    def failed(self, who: str, error: BaseException) -> None:
        """Note that one loop's request did not get through."""
        told = f"{type(error).__name__}: {error}"
        if not self._failures:
            self._hope.clear()
            if self._holding is not None:
                self._holding.cancel()
                self._holding = None
            if not self._is_told:
                self._begin(told)
        queue = _queue_of(who)
        if queue is not None:
            self._lose(queue, told, is_new=who not in self._failures)
        self._failures[who] = self._failures.get(who, 0) + 1

    def worked(self, who: str) -> None:
        """Note that one loop's request was answered."""
        if not self._failures:
            return
        has_failed = self._failures.pop(who, None) is not None
        queue = _queue_of(who)
        if queue is not None:
            self._reach(queue, has_failed=has_failed)
        if not has_failed:
            return
        self._hope.set()
        self.on_hope()
        if self._failures:
            self._hope.clear()  # those who wait now were woken; who fails from here on waits anew
            return
        self._queues.clear()
        after_ms = self._clock() - self._lost_ms
        if self._hold_ms:
            loop = asyncio.get_running_loop()
            self._holding = loop.call_later(self._hold_ms / 1_000, self._end, after_ms)
        else:
            self._end(after_ms)

    async def pause(self, who: str) -> None:
        """Wait before this loop's next try: jittered back-off, cut short when another gets through."""
        wait_ms = backoff_ms(self._failures.get(who, 1), self._dice())
        try:
            async with asyncio.timeout(wait_ms / 1_000):
                await self._hope.wait()
        except TimeoutError:
            pass

    def _begin(self, error: str) -> None:
        now_ms = self._clock()
        self._lost_ms, self._is_told = now_ms, True
        is_restless = self._back_ms is not None and now_ms - self._back_ms < RESTLESS_MS
        longer_ms = min(max(FIRST_HOLD_MS, 2 * self._hold_ms), LONGEST_HOLD_MS)
        self._hold_ms = longer_ms if is_restless else 0
        self._herald.tell(BackendLost(error=error))

    def _end(self, after_ms: int) -> None:
        self._holding = None
        self._is_told, self._back_ms = False, self._clock()
        self._herald.tell(BackendBack(after_ms=after_ms))

    def _lose(self, name: str, error: str, *, is_new: bool) -> None:
        now_ms = self._clock()
        queue = self._queues.setdefault(name, _Queue(now_ms))
        if is_new:
            queue.since_ms = queue.since_ms if queue.failing else now_ms
            queue.failing += 1
        if queue.is_told or now_ms - queue.since_ms < APART_MS:
            return
        if any(not one.failing and now_ms - one.since_ms >= APART_MS for one in self._queues.values()):
            queue.is_told = True
            self._herald.tell(QueueLost(queue=name, error=error))

    def _reach(self, name: str, *, has_failed: bool) -> None:
        now_ms = self._clock()
        queue = self._queues.setdefault(name, _Queue(now_ms))
        queue.failing -= has_failed
        if not has_failed or queue.failing:
            return
        if queue.is_told:
            queue.is_told = False
            self._herald.tell(QueueReached(queue=name, after_ms=now_ms - queue.since_ms))
        queue.since_ms = now_ms


def _queue_of(who: str) -> str | None:
    return who.partition(" ")[2] or None
