"""Claims whose answers may be lost: repeated under the same request id, aside from the other queues."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from leasemq.backend import Backend
from leasemq.clock import Clock
from leasemq.errors import BackendUnavailable, IndeterminateWrite
from leasemq.protocol.model import Claimant, Claimed, Lease
from leasemq.worker.dice import Dice
from leasemq.worker.link import Link

LATE_MS = 100  # for a claim under way when the worker was cancelled; most take less than a tenth of it
PATIENCE_MS = 500  # for one queue's answer, while others could be asked


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """A claim's answer, and when the request that may have taken the leases was sent."""

    queue: str
    claimed: Claimed
    sent_ms: int
    had_failed: bool = False  # a try before it: leases may have been left that nobody here knows of

    def of_these(self, leases: Iterable[Lease]) -> Answered:
        """Answer the same with these leases only."""
        return replace(self, claimed=replace(self.claimed, leases=tuple(leases)))


@dataclass(slots=True)
class _Asked:
    """A claim that is not answered yet. Owned by Claims."""

    queue: str
    limit: int
    claimant: Claimant
    sent_ms: int
    is_out: bool = True  # a request is under way
    is_in_doubt: bool = False  # leases may have been taken that nobody here knows of
    has_failed: bool = False
    request: asyncio.Task[Claimed] | None = None  # the last one


class Claims:
    """At most one claim of each queue. Owner: the worker's claiming loop.

    One that fails, or is not answered for long, goes on in a task of `aside` until it is answered, and
    the other queues need not wait for it. What it brings then is put into `late`.
    """

    def __init__(  # noqa: PLR0913  a part of the crew is given each other part that it asks or tells
        self,
        backend: Backend,
        link: Link,
        clock: Clock,
        dice: Dice,
        stopping: asyncio.Event,
        *,
        queues: Collection[str],
        worker: str,
        incarnation: str,
        lease_ms: int,
        on_aside: Callable[[str], None],
        on_late: Callable[[], None],
    ) -> None:
        self._backend = backend
        self._link = link
        self._clock = clock
        self._dice = dice
        self._stopping = stopping
        self._lease_ms = lease_ms
        self._worker = worker
        self._incarnation = incarnation
        self._on_aside = on_aside
        self._on_late = on_late
        self._patience_s = PATIENCE_MS / 1_000 if len(queues) > 1 else None
        self._asked: dict[str, _Asked] = {}
        self.late: deque[Answered] = deque()  # at most one of each queue
        self.aside: asyncio.TaskGroup | None = None  # set by the claiming loop
        self.has_asked = False  # ever

    @property
    def is_asking(self) -> bool:
        """Whether leases may have been taken, or may be, that nobody here has heard of."""
        return bool(self.late) or any(one.is_out or one.is_in_doubt for one in self._asked.values())

    @property
    def kept(self) -> int:
        """For how many jobs the claims that are aside ask; one that has failed keeps no slot free."""
        if not self._asked:
            return 0
        return sum(one.limit for one in self._asked.values() if not one.has_failed)

    async def claim(self, queue: str, limit: int, *, takes_suspect: bool) -> Answered | None:
        """Claim. None: it is aside now, or one of this queue was already."""
        if queue in self._asked:
            return None
        claimant = Claimant(
            worker=self._worker,
            incarnation=self._incarnation,
            request_id=self._dice.request_id(),
            takes_suspect=takes_suspect,
        )
        asked = self._asked[queue] = _Asked(queue, limit, claimant, self._clock())
        self.has_asked = True
        request = self._send(asked)
        await asyncio.wait({request}, timeout=self._patience_s)
        if not request.done() or (claimed := self._answer(asked, request)) is None:
            assert self.aside is not None
            self.aside.create_task(self._go_on(asked))
            self._on_aside(queue)
            return None
        del self._asked[queue]
        return Answered(queue=queue, claimed=claimed, sent_ms=asked.sent_ms)

    def _send(self, asked: _Asked) -> asyncio.Task[Claimed]:
        """Send the request in a task of its own: cancelling whoever waits does not take it back."""
        asked.is_out = True
        asked.request = asyncio.get_running_loop().create_task(
            self._backend.claim(asked.queue, asked.limit, self._lease_ms, asked.claimant)
        )
        asked.request.add_done_callback(_retrieved)
        return asked.request

    def _answer(self, asked: _Asked, request: asyncio.Task[Claimed]) -> Claimed | None:
        who = f"claim {asked.queue}"
        asked.is_out = False
        try:
            claimed = request.result()
        except (BackendUnavailable, IndeterminateWrite) as error:
            asked.has_failed = True
            asked.is_in_doubt |= isinstance(error, IndeterminateWrite)
            self._link.failed(who, error)
            return None
        self._link.worked(who)
        return claimed

    async def _go_on(self, asked: _Asked) -> None:
        """Repeat it until it is answered, or until told to stop while certain that nothing was taken."""
        claimed: Claimed | None = None
        while claimed is None:
            if not asked.is_out:
                await self._link.pause(f"claim {asked.queue}")
                if self._stopping.is_set() and not asked.is_in_doubt:
                    break
                self._send(_as_new(asked, self._clock()))
            assert asked.request is not None
            await asyncio.wait({asked.request})
            claimed = self._answer(asked, asked.request)
        del self._asked[asked.queue]
        if claimed is not None:
            self.late.append(
                Answered(
                    queue=asked.queue, claimed=claimed, sent_ms=asked.sent_ms, had_failed=asked.has_failed
                )
            )
        self._on_late()

    def unheard(self) -> Collection[str]:
        """Answer the queues where leases may have been taken that nobody here has heard of."""
        return [one.queue for one in self._asked.values() if one.is_out or one.is_in_doubt]

    async def own_leases(self, queue: str) -> Sequence[Lease] | None:
        """Answer this life's active leases of a queue; None: the backend cannot be reached."""
        who = f"strays {queue}"
        asked = self._asked.get(queue)
        if asked is not None and asked.request is not None and not asked.request.done():
            await asyncio.wait({asked.request}, timeout=LATE_MS / 1_000)  # its leases may not be there yet
        try:
            leases = await self._backend.claimed_by(queue, self._incarnation)
        except (BackendUnavailable, IndeterminateWrite) as error:
            self._link.failed(who, error)
            return None
        self._link.worked(who)
        return leases


def _as_new(asked: _Asked, now_ms: int) -> _Asked:
    """Let it ask for one job, from now, while it is certain that nothing was taken.

    Nobody knows how long its answer takes, or who has the slots by then; with one more free claim to come,
    little is to be given back. One in doubt stays as it is: its leases date from the first request.
    """
    if not asked.is_in_doubt:
        asked.sent_ms = now_ms
        asked.limit = min(asked.limit, 1)
        asked.claimant = replace(asked.claimant, takes_suspect=False)
    return asked


def _retrieved(request: asyncio.Task[Claimed]) -> None:
    """Look at the error of a request that nobody waits for any more; the leases are looked for instead."""
    if not request.cancelled():
        request.exception()
