"""Who waits for which job's end: one listener for all waiters of a connection, no poll per waiter."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet

from leasemq.backend import Backend, Listener
from leasemq.client.lookout import TROUBLE, Lookout
from leasemq.client.portion import READ_BYTES, Portion
from leasemq.errors import CorruptRecord
from leasemq.protocol.insight import JobRecord, Slip
from leasemq.protocol.model import Ref, Wake

_LOOK_EVERY_MS = 1_000  # pushes are hints: whoever waits is looked after this often all the same,
_LOOKS_A_SECOND = 1_000  # but never more jobs than this in a second,
_LOOKED_BYTES_A_SECOND = 2 * READ_BYTES  # nor more of what they have stored
_CLOSED = "the app was closed while somebody waited for a result"

Waiter = asyncio.Future[JobRecord | Slip | None]
Place = tuple[str, str]  # queue and id


class Ends:
    """Answers waiters when their job has ended, is gone, or has begun another generation.

    Owner: one Connection, in one event loop. A waiter is first put on the listener's list and then read,
    so no end falls between the two.
    """

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._waiters: dict[Place, dict[Ref, set[Waiter]]] = {}
        self._portion = Portion()
        self._lookout = Lookout(backend, self, _CLOSED)

    @property
    def is_watching(self) -> bool:
        """Whether a listener is kept, which is so only while somebody waits."""
        return self._lookout.is_watching

    async def ended(self, ref: Ref) -> JobRecord | Slip | None:
        """Answer what is kept of `ref` once it is over.

        Its terminal record; else its result, which may outlive that; else the record of another generation,
        or None.

        Raises: CorruptRecord; BackendUnavailable if the connection is closed, or was.
        """
        self._lookout.check_open()
        waiter: Waiter = asyncio.get_running_loop().create_future()
        place = (ref.queue, ref.id)
        self._waiters.setdefault(place, {}).setdefault(ref, set()).add(waiter)
        if self._lookout.listener is not None:
            self._lookout.listener.interest([ref])
        self._lookout.name([place])
        self._lookout.see_to_watch()
        try:
            return await waiter
        finally:
            self._leave(place, ref, waiter)

    async def close(self) -> None:
        """End the watch and whoever still waits."""
        await self._lookout.close()

    def _leave(self, place: Place, ref: Ref, waiter: Waiter) -> None:
        generations = self._waiters[place]
        generations[ref].discard(waiter)
        if not generations[ref]:
            del generations[ref]
            if self._lookout.listener is not None:
                self._lookout.listener.forget([ref])
        if not generations:
            del self._waiters[place]
        self._lookout.rest_if_alone()

    # ---- as the lookout asks for it, see `Seekers`

    @property
    def is_anybody_left(self) -> bool:
        """Whether somebody waits."""
        return bool(self._waiters)

    @property
    def wanted(self) -> AbstractSet[Place]:
        """The jobs that somebody waits for."""
        return self._waiters.keys()

    @property
    def look_every_ms(self) -> int:
        """How often all who wait are looked after: the rarer, the more they are and the more is stored."""
        return max(
            _LOOK_EVERY_MS,
            len(self._waiters) * 1_000 // _LOOKS_A_SECOND,
            self._portion.read_bytes * 1_000 // _LOOKED_BYTES_A_SECOND,
        )

    def enlist(self, listener: Listener) -> None:
        """Hear of every life that somebody waits for."""
        listener.interest(ref for generations in self._waiters.values() for ref in generations)

    def pushed(self, wake: Wake) -> Iterable[Place]:
        """Answer the jobs that have ended."""
        return ((ref.queue, ref.id) for ref in wake.ended)

    async def prepare_look(self) -> None:
        """Count anew how much is read for a look."""
        self._portion.read_bytes = 0

    async def read(self, things: AbstractSet[Place]) -> None:
        """Read these jobs, some at once."""
        for queue, ids in _by_queue(things).items():
            start = 0
            while start < len(ids):
                batch = ids[start : start + self._portion.limit]
                start += len(batch)
                await self._read(queue, batch)

    def refuse(self, error: BaseException) -> None:
        """End whoever waits."""
        self._refuse(self._waiters, error)

    async def _read(self, queue: str, ids: Sequence[str]) -> None:
        try:
            records = await self._backend.get(queue, ids)
            self._portion.weigh(records)
            found = dict(zip(ids, records, strict=True))
            slips = await self._slips(queue, found)
        except TROUBLE:
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
            refs = gone[len(slips) : len(slips) + self._portion.limit]
            read = await self._backend.slips(queue, [(ref.id, ref.generation) for ref in refs])
            self._portion.weigh(read)
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
