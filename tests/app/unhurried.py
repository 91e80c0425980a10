"""A backend whose requests and answers take their time, so that a seeded loop really mixes what happens.

Backends in memory, and SQLite inline, answer within the call. Through this one a request arrives some turns
of the loop after it was sent, its answer some turns after that, and everybody else goes on meanwhile.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, cast

from leasemq.backend import Backend, Listener, Renewer
from leasemq.errors import BackendUnavailable
from leasemq.protocol.model import Ref, Wake

TURNS = 6


async def turns(count: int) -> None:
    """Let the loop go round so often."""
    for _ in range(count):
        await asyncio.sleep(0)


class UnhurriedBackend:
    """See the module. Owner: the test; give it to whoever takes a `Backend` with `unhurried`.

    `on_answer` is told each operation and its answer.
    """

    def __init__(self, behind: Backend, dice: random.Random) -> None:
        self.calls: Counter[str] = Counter()
        self.open_listeners: list[UnhurriedListener] = []
        self.on_answer: Callable[[str, Any], None] = lambda operation, answer: None
        self._behind = behind
        self._dice = dice

    def __getattr__(self, operation: str) -> Callable[..., Awaitable[Any]]:
        perform = getattr(self._behind, operation)

        async def perform_in_time(*args: Any, **kwargs: Any) -> Any:
            self.calls[operation] += 1
            await self.pause()
            answer = await perform(*args, **kwargs)
            self.on_answer(operation, answer)
            await self.pause()
            return answer

        return perform_in_time

    async def pause(self) -> None:
        """Take some turns."""
        await turns(self._dice.randrange(TURNS))

    def renewer(self) -> Renewer:
        """See `Backend.renewer`. Leases are renewed at once."""
        return self._behind.renewer()

    @asynccontextmanager
    async def listen(self, queues: Sequence[str]) -> AsyncIterator[Listener]:
        """See `Backend.listen`."""
        self.calls["listen"] += 1
        await self.pause()
        async with self._behind.listen(queues) as behind:
            listener = UnhurriedListener(behind, self)
            self.open_listeners.append(listener)
            try:
                await self.pause()
                yield cast("Listener", listener)
            finally:
                self.open_listeners.remove(listener)


class UnhurriedListener:
    """See `leasemq.backend.Listener`. `cut` breaks it; `is_deaf` loses every push;
    `ended` is all that was pushed."""

    def __init__(self, behind: Listener, backend: UnhurriedBackend) -> None:
        self.is_deaf = False
        self.ended: set[Ref] = set()
        self._behind = behind
        self._backend = backend
        self._cut = asyncio.Event()

    def __getattr__(self, name: str) -> Any:  # the rest of the contract
        return getattr(self._behind, name)

    def cut(self) -> None:
        """Have whoever waits learn that the connection is gone."""
        self._cut.set()

    async def wait(self, timeout_ms: int) -> Wake:
        """See `Listener.wait`. Raises: BackendUnavailable once it is cut."""
        waiting = asyncio.ensure_future(self._behind.wait(timeout_ms))
        cut = asyncio.ensure_future(self._cut.wait())
        try:
            await asyncio.wait({waiting, cut}, return_when=asyncio.FIRST_COMPLETED)
            if self._cut.is_set():
                raise BackendUnavailable("the subscription was cut by the test")
            wake = waiting.result()
        finally:
            waiting.cancel()
            cut.cancel()
        await self._backend.pause()
        self.ended |= wake.ended
        return Wake() if self.is_deaf else wake


def unhurried(behind: Backend, dice: random.Random) -> tuple[Backend, UnhurriedBackend]:
    """Answer a backend that takes its time, as what it stands for and as what it is."""
    backend = UnhurriedBackend(behind, dice)
    return cast("Backend", backend), backend
