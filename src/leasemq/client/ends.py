"""Who waits for which job's end: one listener for all waiters of a connection, no poll per waiter."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterable, Sequence
from typing import NoReturn

from leasemq.backend import Backend, Listener
from leasemq.clock import boot_ms
from leasemq.errors import BackendUnavailable, CorruptRecord, IndeterminateWrite
from leasemq.protocol.insight import PAGE_BYTES, JobRecord, Slip, values_bytes
from leasemq.protocol.model import Ref

READ_LIMIT = 500  # records read at once,
_READ_BYTES = 4 * PAGE_BYTES  # and about how much of them
_HEAVY_BYTES = 64 * 1024  # what a record may have, as long as none was read
_LOOK_EVERY_MS = 1_000  # pushes are hints: whoever waits is looked after this often all the same,
_LOOKS_A_SECOND = 1_000  # but never more jobs than this in a second,
_LOOKED_BYTES_A_SECOND = 2 * _READ_BYTES  # nor more of what they have stored
_PAUSE_MS = 500  # after the backend could not be reached

Waiter = asyncio.Future[JobRecord | Slip | None]
Place = tuple[str, str]  # queue and id


class Ends:
    """Answers waiters when their job has ended, is gone, or has begun another generation.

    Owner: one Connection, in one event loop. The watch runs while somebody waits and is born outside
    a TaskGroup, because no waiter's life spans that of the others; `close` ends it. A waiter is first
    put on the listener's list and then read, so no end falls between the two.
    """

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._waiters: dict[Place, dict[Ref, set[Waiter]]] = {}
        self._unread: set[Place] = set()
        self._poke = asyncio.Event()
        self._limit = _READ_BYTES // _HEAVY_BYTES
        self._read_bytes = 0  # since the last look
        self._listener: Listener | None = None
        self._watch: asyncio.Task[None] | None = None
        self._is_closed = False

    @property
    def is_watching(self) -> bool:
        """Whether a listener is kept, which is so only while somebody waits."""
        return self._watch is not None

    async def ended(self, ref: Ref) -> JobRecord | Slip | None:
        """Answer what is kept of `ref` once it is over.

        Its terminal record; else its result, which may outlive that; else the record of another generation,
        or None.

        Raises: CorruptRecord; BackendUnavailable if the connection is closed meanwhile.
        """
        waiter: Waiter = asyncio.get_running_loop().create_future()
        place = (ref.queue, ref.id)
        self._waiters.setdefault(place, {}).setdefault(ref, set()).add(waiter)
        if self._listener is not None:
            self._listener.interest([ref])
        self._name([place])
        if self._watch is None:
            self._start()
        try:
            return await waiter
        finally:
            self._leave(place, ref, waiter)

    async def close(self) -> None:
        """End the watch and whoever still waits."""
        self._is_closed = True
        self._refuse(
            self._waiters, BackendUnavailable("the app was closed while somebody waited for a result")
        )
        if self._watch is not None:
            self._watch.cancel()
            await asyncio.wait({self._watch})

    def _start(self) -> None:
        self._watch = asyncio.create_task(self._run())
        self._watch.add_done_callback(self._stopped)

    def _stopped(self, watch: asyncio.Task[None]) -> None:
        """Watch anew for those who came while it ended; a defect in a backend reaches every waiter."""
        self._watch = None
        self._listener = None
        if not watch.cancelled() and (defect := watch.exception()) is not None:
            while isinstance(defect, BaseExceptionGroup) and len(defect.exceptions) == 1:
                defect = defect.exceptions[0]  # the group is the watch's, not the waiters'
            self._refuse(self._waiters, defect)
        elif self._waiters and not self._is_closed:
            self._start()

    def _leave(self, place: Place, ref: Ref, waiter: Waiter) -> None:
        generations = self._waiters[place]
        generations[ref].discard(waiter)
        if not generations[ref]:
            del generations[ref]
            if self._listener is not None:
                self._listener.forget([ref])
        if not generations:
            del self._waiters[place]
        if not self._waiters and self._watch is not None:
            self._watch.cancel()

    async def _run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._listen_on())
            group.create_task(self._read_on())

    async def _listen_on(self) -> NoReturn:
        """Keep a listener; while there is none, everybody is looked after at each new try."""
        while True:
            try:
                async with self._backend.listen(()) as listener:
                    listener.interest(ref for generations in self._waiters.values() for ref in generations)
                    self._listener = listener
                    await self._hear(listener)
            except (BackendUnavailable, IndeterminateWrite):
                self._listener = None
            self._name(self._waiters)
            await asyncio.sleep(_PAUSE_MS / 1_000)

    async def _hear(self, listener: Listener) -> NoReturn:
        """Name the jobs to read: those whose end was pushed, and from time to time all of them."""
        looked_ms = 0
        while True:
            every_ms = max(
                _LOOK_EVERY_MS,
                len(self._waiters) * 1_000 // _LOOKS_A_SECOND,
                self._read_bytes * 1_000 // _LOOKED_BYTES_A_SECOND,
            )
            if boot_ms() - looked_ms >= every_ms:
                looked_ms = boot_ms()
                self._read_bytes = 0
                self._name(self._waiters)
            wake = await listener.wait(max(1, looked_ms + every_ms - boot_ms()))
            self._name((ref.queue, ref.id) for ref in wake.ended)

    def _name(self, places: Iterable[Place]) -> None:
        self._unread.update(places)
        if self._unread:
            self._poke.set()

    async def _read_on(self) -> NoReturn:
        while True:
            await self._poke.wait()
            self._poke.clear()
            unread, self._unread = self._unread & self._waiters.keys(), set()
            for queue, ids in _by_queue(unread).items():
                start = 0
                while start < len(ids):
                    batch = ids[start : start + self._limit]
                    start += len(batch)
                    await self._read(queue, batch)

    async def _read(self, queue: str, ids: Sequence[str]) -> None:
        try:
            records = await self._backend.get(queue, ids)
            self._weigh([values_bytes(record) for record in records if record is not None])
            found = dict(zip(ids, records, strict=True))
            slips = await self._slips(queue, found)
        except (BackendUnavailable, IndeterminateWrite):
            return  # they are read again at the next look
        except CorruptRecord as error:
            if len(ids) > 1:  # find the record that cannot be read
                for id_ in ids:
                    await self._read(queue, [id_])
            else:
                self._refuse([(queue, ids[0])], error)
            return
        for id_, record in found.items():
            self._tell((queue, id_), record, slips)

    def _weigh(self, sizes_bytes: Sequence[int]) -> None:
        """Read as many at once, from here on, as fit if they are like these."""
        if sizes_bytes:
            read_bytes = sum(sizes_bytes)
            self._read_bytes += read_bytes
            self._limit = min(max(1, _READ_BYTES * len(sizes_bytes) // max(1, read_bytes)), READ_LIMIT)

    async def _slips(self, queue: str, found: dict[str, JobRecord | None]) -> dict[Ref, Slip | None]:
        """Read the results of the lives that somebody waits for and whose record is gone."""
        gone = [
            ref
            for id_, record in found.items()
            for ref in self._waiters.get((queue, id_), {})
            if record is None or record.ref != ref
        ]
        slips: dict[Ref, Slip | None] = {}
        while len(slips) < len(gone):
            refs = gone[len(slips) : len(slips) + self._limit]
            read = await self._backend.slips(queue, [(ref.id, ref.generation) for ref in refs])
            self._weigh([len(slip.result) for slip in read if slip is not None])
            slips.update(zip(refs, read, strict=True))
        return slips

    def _tell(self, place: Place, record: JobRecord | None, slips: dict[Ref, Slip | None]) -> None:
        for ref, waiters in self._waiters.get(place, {}).items():
            own = record if record is not None and record.ref == ref else None
            if (ref not in slips) if own is None else not own.state.is_terminal:
                continue  # it runs, or its waiter came meanwhile and is looked after in the next round
            found = own or slips[ref] or record
            for waiter in waiters:
                if not waiter.done():
                    waiter.set_result(found)

    def _refuse(self, places: Iterable[Place], error: BaseException) -> None:
        waiters = (some for place in places for some in self._waiters.get(place, {}).values())
        for waiter in itertools.chain.from_iterable(waiters):
            if not waiter.done():
                waiter.set_exception(error)


def _by_queue(places: Iterable[Place]) -> dict[str, list[str]]:
    """Answer the ids to read, by queue."""
    by_queue: dict[str, list[str]] = {}
    for queue, id_ in sorted(places):
        by_queue.setdefault(queue, []).append(id_)
    return by_queue
