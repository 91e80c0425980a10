"""Whether the backend can be reached, as all of a worker's loops see it together.

One event per change of state, not per try: the link is lost when the first loop fails, and back when
every loop that failed has succeeded again. Whoever waits is woken when one of them gets through.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from leasemq.clock import Clock
from leasemq.events import BackendBack, BackendLost, Herald
from leasemq.protocol.keeping import backoff_ms


class Link:
    """Who cannot reach the backend at the moment. Owner: one worker, in its loop."""

    def __init__(self, herald: Herald, clock: Clock, dice: Callable[[], float]) -> None:
        self._herald = herald
        self._clock = clock
        self._dice = dice
        self._failures: dict[str, int] = {}
        self._lost_ms = 0
        self._hope = asyncio.Event()
        self.on_hope: Callable[[], None] = lambda: None  # told when somebody who failed got through

    @property
    def is_up(self) -> bool:
        """Whether every loop's last request was answered. From any thread."""
        return not self._failures

    def failed(self, who: str, error: BaseException) -> None:
        """Note that one loop's request did not get through."""
        if not self._failures:
            self._lost_ms = self._clock()
            self._herald.tell(BackendLost(error=f"{type(error).__name__}: {error}"))
            self._hope.clear()
        self._failures[who] = self._failures.get(who, 0) + 1

    def worked(self, who: str) -> None:
        """Note that one loop's request was answered."""
        if not self._failures or self._failures.pop(who, None) is None:
            return
        self._hope.set()
        self.on_hope()
        if self._failures:
            self._hope.clear()  # those who wait now were woken; who fails from here on waits anew
        else:
            self._herald.tell(BackendBack(after_ms=self._clock() - self._lost_ms))

    async def pause(self, who: str) -> None:
        """Wait before this loop's next try: jittered back-off, cut short when another gets through."""
        wait_ms = backoff_ms(self._failures.get(who, 1), self._dice())
        try:
            async with asyncio.timeout(wait_ms / 1_000):
                await self._hope.wait()
        except TimeoutError:
            pass
