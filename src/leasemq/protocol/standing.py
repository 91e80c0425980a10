"""How a job stands in its queue: what its record does not say, and a claim would go by."""

from __future__ import annotations

from dataclasses import dataclass

from leasemq.protocol.insight import JobRecord
from leasemq.protocol.model import Ref, State

AHEAD_LIMIT = 1_000  # jobs ahead are counted up to this
ALONE_LIMIT = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """One job, and what its queue was like at the same moment.

    The record is that of the id itself; or, if it has none, of the job that it was merged into.
    """

    now_ms: int
    record: JobRecord
    merged_into: Ref | None = None  # the job that an enqueue under this id was merged into
    paused: bool = False
    ahead: int = 0  # of a waiting job: those of its lane that a claim takes first, at most `AHEAD_LIMIT`
    suspect_waits: bool = False
    reserved_for: str = ""  # the life of a worker that runs empty for a suspect
    reserved_until_ms: int = 0
    alone: tuple[str, ...] = ()  # the lives of workers that run a suspect of this queue, the first hundred
    key_holder: Ref | None = None  # who holds the job's unique key

    @property
    def is_claimable(self) -> bool:
        """Whether a claim of enough jobs takes it now; a suspect only for a process that runs nothing."""
        record = self.record
        is_fresh = record.expires_ms is None or record.expires_ms > self.now_ms
        return record.state is State.WAITING and is_fresh and not self.paused
