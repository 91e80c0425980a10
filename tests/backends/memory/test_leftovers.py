"""What jobs leave in memory once they are gone: nothing that grows."""

from __future__ import annotations

import pytest

from leasemq.backends.memory import MemoryBackend
from leasemq.backends.memory.shelf import STALE_ENTRIES
from leasemq.protocol.model import Keep
from leasemq.testing.conformance import builders
from leasemq.testing.conformance.builders import HOUR_MS
from leasemq.testing.manual_clock import ManualClock

ROUNDS, BATCH = 10, 500
AT_ONCE = Keep(result_ms=0, record_ms=0, dead_ms=0)


@pytest.fixture(autouse=True)
def backend_name() -> str:
    """The backend that these tests show promises on."""
    return "memory"


def entries(backend: MemoryBackend) -> dict[str, int]:
    """How much each container of a queue holds; of its counts there is one for each state."""
    shelf = backend._shelves["mail"]
    found = {name: value for name, value in vars(shelf).items() if name != "counts"}
    sized = (dict, list, set, type(shelf.events))
    return {name: len(value) for name, value in found.items() if isinstance(value, sized) and value}


@pytest.mark.promise("A-34")
@pytest.mark.parametrize(
    "fields",
    [{"delay_ms": 1_000 * HOUR_MS}, {"ttl_ms": 1_000 * HOUR_MS}, {}],
    ids=["scheduled", "ttl", "plain"],
)
async def test_jobs_that_are_cancelled_leave_no_growing_trace(fields: dict[str, int]) -> None:
    clock = ManualClock()
    backend = MemoryBackend(clock=clock, event_limit=10)
    waiting = [builders.new_job("stays", **fields)]
    await backend.enqueue("mail", waiting)
    for round_ in range(ROUNDS):
        ids = [f"{round_}-{number}" for number in range(BATCH)]
        await backend.enqueue("mail", [builders.new_job(id_, keep=AT_ONCE, **fields) for id_ in ids])
        await backend.cancel("mail", ids)
        clock.advance(1_000)
        await backend.prune("mail", 1_000)

    assert max(entries(backend).values()) <= STALE_ENTRIES + BATCH
    clock.advance(999 * HOUR_MS)
    await backend.advance("mail", 10)
    if "delay_ms" in fields:
        clock.advance(HOUR_MS)
        assert (await backend.advance("mail", 10)).promoted == 1
    (lease,) = (await backend.claim("mail", 10, 1_000, builders.claimant())).leases
    assert lease.ref.id == "stays"
