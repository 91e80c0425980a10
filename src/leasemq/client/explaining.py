"""Gathers what `why` goes by: how the job stands, who works, how its parents are."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from leasemq.backend import Backend
from leasemq.errors import CorruptRecord
from leasemq.protocol.insight import JobRecord
from leasemq.protocol.model import State
from leasemq.protocol.not_yet import PARENTS_SHOWN
from leasemq.protocol.reasons import Reason, Why
from leasemq.protocol.why import Asked, Surroundings, explain, unknown

_QUEUES_SEARCHED = 1_000


async def explained(
    backend: Backend, queue: str, asked: Asked, *, elsewhere: bool = True
) -> tuple[Reason, ...]:
    """Answer why a job does not run, or ran more than once; see `leasemq.protocol.why`.

    Args:
        elsewhere: say of an unknown id which other queues have it, after a look at each.
    """
    standing = await backend.standing(queue, asked.id)
    if standing is None:
        others = await _elsewhere(backend, queue, asked.id) if elsewhere else ()
        return (unknown(queue, asked.id, others),)
    around = Surroundings(workers=await backend.workers(), parents=await _parents(backend, standing.record))
    return explain(asked, standing, around)


def is_known(reasons: Sequence[Reason]) -> bool:
    """Whether the question was about a job that there is."""
    return all(reason.kind is not Why.UNKNOWN for reason in reasons)


async def _elsewhere(backend: Backend, queue: str, id_: str) -> list[str]:
    """Answer the other queues that have the id, among the first thousand."""
    others = [name for name in await backend.queues() if name != queue][:_QUEUES_SEARCHED]
    return [name for name in others if await backend.standing(name, id_) is not None]


async def _parents(backend: Backend, record: JobRecord) -> Mapping[tuple[str, str], State | None]:
    asked: dict[str, list[str]] = defaultdict(list)
    for parent in record.open_parents[:PARENTS_SHOWN]:
        asked[parent.queue].append(parent.id)
    states: dict[tuple[str, str], State | None] = {}
    for queue, ids in asked.items():
        for id_ in ids:
            states[queue, id_] = await _state(backend, queue, id_)
    return states


async def _state(backend: Backend, queue: str, id_: str) -> State | None:
    try:
        (record,) = await backend.get(queue, [id_])
    except CorruptRecord:
        return None
    return None if record is None else record.state
