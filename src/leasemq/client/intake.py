"""Group commit for enqueues: what is asked for while a batch is under way goes with the next one."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

from leasemq.backend import Backend
from leasemq.client.storing import PATIENCE_MS, Answer, Offer, store
from leasemq.protocol.model import Enqueued

BATCH_JOBS = 1_000
BATCH_BYTES = 4 * 1024 * 1024
_JOB_BYTES = 256  # what a job takes beside its payload, roughly


@dataclass(slots=True)
class _Caller:
    offer: Offer
    answer: asyncio.Future[Enqueued]


@dataclass(slots=True)
class _Lane:
    """The callers of one queue. Owned by its Intake."""

    waiting: deque[_Caller] = field(default_factory=deque)
    under_way: list[_Caller] = field(default_factory=list)
    sending: asyncio.Task[None] | None = None


class Intake:
    """Stores jobs, those of concurrent calls together; order within a queue is the order of the calls.

    Jobs whose record is not kept at all go in batches of their own, since those are not repeated.
    Owner: one Connection, in one event loop. A batch is sent by a task of the intake's own, so that
    cancelling a caller never cancels a request under way; `close` waits for those tasks. They are not
    born in a TaskGroup because the error of one batch must reach its callers and nobody else.
    """

    def __init__(self, backend: Backend, *, patience_ms: int = PATIENCE_MS) -> None:
        self._backend = backend
        self._patience_ms = patience_ms
        self._lanes: dict[tuple[str, bool], _Lane] = {}
        self._bulks: set[asyncio.Task[list[Answer]]] = set()

    async def one(self, queue: str, offer: Offer) -> Enqueued:
        """Store one job, in the next batch of its queue. Raises: what became of it."""
        key = (queue, offer.is_repeatable)
        lane = self._lanes.get(key)
        if lane is None:
            lane = self._lanes[key] = _Lane()
        caller = _Caller(offer, asyncio.get_running_loop().create_future())
        lane.waiting.append(caller)
        if lane.sending is None:
            self._start(key, lane)
        return await caller.answer

    async def many(self, queue: str, offers: Sequence[Offer]) -> list[Enqueued]:
        """Store jobs in this order, in as few batches as bounds allow.

        Raises: the error of the first job that was not stored; those before it are.
        """
        stored: list[Enqueued] = []
        for chunk in chunks(offers):
            sending = asyncio.create_task(store(self._backend, queue, chunk, patience_ms=self._patience_ms))
            self._bulks.add(sending)
            sending.add_done_callback(self._bulks.discard)
            await asyncio.wait({sending})  # unlike awaiting the task, a cancelled caller leaves it running
            for answer in sending.result():
                if not isinstance(answer, Enqueued):
                    raise answer
                stored.append(answer)
        return stored

    async def close(self) -> None:
        """Wait for every batch under way; nothing is sent that nobody asked for."""
        while under_way := self._tasks():
            await asyncio.wait(under_way)

    def _tasks(self) -> set[asyncio.Task[None] | asyncio.Task[list[Answer]]]:
        sending = {lane.sending for lane in self._lanes.values() if lane.sending is not None}
        return {*sending, *self._bulks}

    def _start(self, key: tuple[str, bool], lane: _Lane) -> None:
        lane.sending = asyncio.create_task(self._send(key[0], lane))
        lane.sending.add_done_callback(partial(self._ended, key, lane))

    async def _send(self, queue: str, lane: _Lane) -> None:
        while taken := _next_batch(lane):
            lane.under_way = taken
            offers = [caller.offer for caller in taken]
            answers = await store(self._backend, queue, offers, patience_ms=self._patience_ms)
            lane.under_way = []
            for caller, answer in zip(taken, answers, strict=True):
                _deliver(caller, answer)

    def _ended(self, key: tuple[str, bool], lane: _Lane, sending: asyncio.Task[None]) -> None:
        """Go on if callers came after the last look; a defect in a backend reaches those who wait for it."""
        lane.sending = None
        if sending.cancelled():
            for caller in (*lane.under_way, *lane.waiting):
                caller.answer.cancel()
            lane.waiting.clear()
        elif (defect := sending.exception()) is not None:
            for caller in lane.under_way:
                _deliver(caller, defect)
        lane.under_way = []
        if lane.waiting:
            self._start(key, lane)
        else:
            self._lanes.pop(key, None)


def chunks(
    offers: Sequence[Offer], limit: int = BATCH_JOBS, limit_bytes: int = BATCH_BYTES
) -> Iterator[list[Offer]]:
    """Cut the offers, in order, into batches bounded by count and bytes; a huge one goes alone."""
    chunk: list[Offer] = []
    room_bytes = limit_bytes
    for offer in offers:
        size_bytes = len(offer.job.payload) + _JOB_BYTES
        if chunk and (len(chunk) == limit or size_bytes > room_bytes):
            yield chunk
            chunk, room_bytes = [], limit_bytes
        chunk.append(offer)
        room_bytes -= size_bytes
    if chunk:
        yield chunk


def _next_batch(lane: _Lane) -> list[_Caller]:
    """Take who waits, in order, within the bounds; callers that were cancelled meanwhile are left out."""
    taken: list[_Caller] = []
    room_bytes = BATCH_BYTES
    while lane.waiting and len(taken) < BATCH_JOBS:
        room_bytes -= len(lane.waiting[0].offer.job.payload) + _JOB_BYTES
        if taken and room_bytes < 0:
            break
        caller = lane.waiting.popleft()
        if not caller.answer.done():
            taken.append(caller)
    return taken


def _deliver(caller: _Caller, answer: Answer | BaseException) -> None:
    if caller.answer.done():  # its caller was cancelled
        return
    if isinstance(answer, Enqueued):
        caller.answer.set_result(answer)
    else:
        caller.answer.set_exception(answer)
