"""Results that outlived their record, of one queue in memory."""

from __future__ import annotations

import heapq

from leasemq.backends.memory.stored import Stored
from leasemq.protocol.insight import Slip
from leasemq.protocol.model import State


class Slips:
    """The results that are still to be kept though their record is gone. Owner: the shelf."""

    def __init__(self) -> None:
        self._by_id: dict[str, dict[int, Slip]] = {}
        self._lane: list[tuple[int, int, str, int]] = []
        self._taken = 0
        self._stored = 0

    def take(self, job: Stored, now: int) -> None:
        """Keep the result of a completed job whose record goes, if it is due to be kept longer."""
        until_ms = job.result_until_ms
        if job.state is not State.COMPLETED or job.result is None or until_ms is None or until_ms <= now:
            return
        slip = Slip(ref=job.ref, task=job.task, result=job.result, until_ms=until_ms)
        lives = self._by_id.setdefault(job.ref.id, {})
        self._stored += job.ref.generation not in lives
        lives[job.ref.generation] = slip
        self._taken += 1
        heapq.heappush(self._lane, (until_ms, self._taken, job.ref.id, job.ref.generation))

    def find(self, id_: str, generation: int, now: int) -> Slip | None:
        """Answer the slip of one life of an id, or of its newest (0), while it is to be kept."""
        lives = self._by_id.get(id_, {}).values()
        kept = {slip.ref.generation: slip for slip in lives if slip.until_ms > now}
        return kept.get(generation or max(kept, default=0))

    def newest(self, id_: str) -> int:
        """Answer the newest generation of the id that has a slip; 0: none has."""
        return max(self._by_id.get(id_, {0: None}))

    def forget(self, id_: str) -> bool:
        """Delete the slips of every life of an id; answers whether there were any."""
        lives = self._by_id.pop(id_, {})
        self._stored -= len(lives)
        return bool(lives)

    def clear(self) -> None:
        """Delete all."""
        self._by_id.clear()
        self._lane.clear()
        self._stored = 0

    def lapse(self, now: int, limit: int, newest: int) -> int:
        """Delete up to `limit` slips past their time or beyond the newest; the first to lapse first."""
        lapsed = 0
        while self._lane and lapsed < limit and (self._lane[0][0] <= now or self._stored > newest):
            until_ms, _, id_, generation = heapq.heappop(self._lane)
            lives = self._by_id.get(id_, {})
            if generation in lives and lives[generation].until_ms == until_ms:
                lapsed += 1
                del lives[generation]
                self._stored -= 1
                if not lives:
                    del self._by_id[id_]
        return lapsed
