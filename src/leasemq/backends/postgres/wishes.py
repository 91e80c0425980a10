"""What the server knows of whom its notifications interest: a row per job waited for and per queue followed.

Whoever ends a job looks for such a row after it has locked the job. One that looked before our row was
committed, and commits after our first look at the job, is the reason for a second look.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Protocol

from leasemq.backends.postgres.executor import Executor
from leasemq.backends.postgres.telling import Told
from leasemq.errors import BackendUnavailable, IndeterminateWrite
from leasemq.protocol.model import Ref

TTL_MS = 600_000  # after which nobody keeps the wishes of a listener that is gone
KEEP_MS = TTL_MS // 4
_AT_ONCE = 1_000
_SECOND_LOOK_S = 0.1  # longer than a settlement takes from its look at the wishes to its commit
_PAUSE_S = 0.5  # after the server could not be reached
_TROUBLE = (BackendUnavailable, IndeterminateWrite)


class _Wishing(Protocol):
    """Those who listen in this loop."""

    @property
    def wanted(self) -> frozenset[Ref]:
        """The jobs whose ends somebody wants to hear of."""

    @property
    def followed(self) -> frozenset[str]:
        """The queues whose events somebody wants to hear of."""


class Wishes:
    """Writes down what changes, all that gathered meanwhile in one request. Owner: one loop's audience.

    Its task lives while there is something to write; it is born outside a TaskGroup, because nobody waits
    for it: what is not written yet is looked for by whoever waits, once a second.
    """

    def __init__(
        self,
        executor: Executor,
        listener: str,
        tell: Callable[[Told], None],
        wishing: _Wishing,
        *,
        keep_ms: int = KEEP_MS,
    ) -> None:
        self._executor = executor
        self._listener = listener
        self._tell = tell
        self._wishing = wishing
        self._keep_s = keep_ms / 1_000
        self._refs: set[Ref] = set()  # changed since they were written
        self._queues: set[str] = set()
        self._written_refs: set[Ref] = set()
        self._written_queues: set[str] = set()
        self._to_see: dict[Ref, None] = {}
        self._to_follow: dict[str, int] = {}
        self._writing: asyncio.Task[None] | None = None
        self._second_look: asyncio.TimerHandle | None = None
        self._keeping: asyncio.TimerHandle | None = None
        self._must_keep = False
        self._is_closed = False

    def changed(self, refs: Iterable[Ref], queues: Iterable[str]) -> None:
        """Note whose ends and whose events are wanted more or less than before."""
        self._refs.update(refs)
        self._queues.update(queues)
        self._see_to_writing()

    async def close(self) -> None:
        """Write no more, and let the server forget what was written, if it can be reached."""
        self._is_closed = True
        for timer in (self._second_look, self._keeping):
            if timer is not None:
                timer.cancel()
        if self._writing is not None:
            self._writing.cancel()
            await asyncio.wait({self._writing})
        if self._written_refs or self._written_queues:
            await _tried(self._executor.call("keep_interest", self._listener, 0))

    def _see_to_writing(self) -> None:
        if self._writing is None and not self._is_closed and self._has_work:
            self._writing = asyncio.get_running_loop().create_task(self._write())
            self._writing.add_done_callback(self._written)

    @property
    def _has_work(self) -> bool:
        return bool(self._refs or self._queues or self._must_keep)

    def _written(self, writing: asyncio.Task[None]) -> None:
        self._writing = None
        if not writing.cancelled():
            writing.result()  # a defect of ours goes to the loop's own handler
            self._see_to_writing()

    async def _write(self) -> None:
        while self._has_work:
            if not await self._write_once():
                await asyncio.sleep(_PAUSE_S)

    async def _write_once(self) -> bool:
        """Write what has gathered; whether the server could be reached. What could not be written is kept."""
        refs, queues = set(list(self._refs)[:_AT_ONCE]), set(self._queues)
        self._refs -= refs
        self._queues -= queues
        wanted, followed = self._wishing.wanted, self._wishing.followed
        try:
            await self._write_refs(refs & wanted, (refs - wanted) & self._written_refs)
            await self._write_queues(queues & followed, (queues - followed) & self._written_queues)
            if self._must_keep:
                ((kept,),) = await self._executor.call("keep_interest", self._listener, TTL_MS)
                if kept < len(self._written_refs) + len(self._written_queues):
                    self._write_anew()
        except _TROUBLE:
            self._refs |= refs
            self._queues |= queues
            return False
        self._must_keep = False
        self._see_to_keeping()
        return True

    def _write_anew(self) -> None:
        """Wish again for what others forgot: this process said nothing for longer than a wish is kept."""
        self._refs |= self._written_refs
        self._queues |= self._written_queues
        self._written_refs.clear()
        self._written_queues.clear()

    async def _write_refs(self, new: set[Ref], old: set[Ref]) -> None:
        if old:
            await self._executor.call("forget", self._listener, *_columns(list(old)))
            self._written_refs -= old
        if new:
            await self._executor.call("interest", self._listener, *_columns(list(new)), TTL_MS)
            self._written_refs |= new
            await self._look(list(new))
            self._to_see.update(dict.fromkeys(new))
            self._look_again()

    async def _write_queues(self, new: set[str], old: set[str]) -> None:
        if old:
            await self._executor.call("unfollow", self._listener, list(old))
            self._written_queues -= old
        if new:
            queues = list(new)
            ((numbers,),) = await self._executor.call("follow", self._listener, queues, TTL_MS)
            for queue in queues:  # what happened since it was wished for was told to nobody
                self._tell(Told(queue=queue, changed=True))
            self._written_queues |= new
            self._to_follow.update(zip(queues, map(_of_events, numbers), strict=True))
            self._look_again()

    async def _look(self, refs: list[Ref]) -> None:
        """Tell which of these have ended."""
        for row in await self._executor.call("ended_of", *_columns(refs)):
            ref = refs[row[0] - 1]
            self._tell(Told(queue=ref.queue, ended=frozenset({ref})))

    async def _newest(self, queues: list[str]) -> dict[str, int]:
        ((numbers,),) = await self._executor.call("newest_events", queues)
        return dict(zip(queues, numbers, strict=True))

    def _look_again(self) -> None:
        if self._second_look is None and not self._is_closed:
            loop = asyncio.get_running_loop()
            self._second_look = loop.call_later(_SECOND_LOOK_S, self._begin_second_look)

    def _begin_second_look(self) -> None:
        self._second_look = None
        if self._writing is not None:  # one at a time
            self._look_again()
            return
        self._writing = asyncio.get_running_loop().create_task(self._see_again())
        self._writing.add_done_callback(self._written)

    async def _see_again(self) -> None:
        refs = [ref for ref in self._to_see if ref in self._wishing.wanted]
        queues = {queue: seen for queue, seen in self._to_follow.items() if queue in self._wishing.followed}
        self._to_see, self._to_follow = {}, {}
        if refs:
            await _tried(self._look(refs))
        if queues:
            await _tried(self._tell_of_news(queues))

    async def _tell_of_news(self, seen: dict[str, int]) -> None:
        for queue, number in (await self._newest(list(seen))).items():
            if _of_events(number) != seen[queue]:
                self._tell(Told(queue=queue, changed=True))

    def _see_to_keeping(self) -> None:
        if self._keeping is None and not self._is_closed and (self._written_refs or self._written_queues):
            self._keeping = asyncio.get_running_loop().call_later(self._keep_s, self._keep)

    def _keep(self) -> None:
        self._keeping = None
        self._must_keep = bool(self._written_refs or self._written_queues)
        self._see_to_writing()


def _of_events(number: int) -> int:
    """Answer a number that changes with events only: a pause is none (`newest_events.sql`)."""
    return number // 2


def _columns(refs: Sequence[Ref]) -> tuple[list[str], list[str], list[int]]:
    return [ref.queue for ref in refs], [ref.id for ref in refs], [ref.generation for ref in refs]


async def _tried(work: Awaitable[object]) -> None:
    """Do what may as well be left: there is another look."""
    try:
        await work
    except _TROUBLE:
        return
