"""Which job `[QUEUE/]ID` means: both may hold a slash, so every reading is looked up."""

from __future__ import annotations

from leasemq.app import App
from leasemq.errors import InvalidName, InvalidSetting, JobNotFound
from leasemq.protocol.insight import JobRecord
from leasemq.protocol.names import check_job_id, check_queue, shown


async def found_job(app: App, name: str, queue: str | None) -> JobRecord:
    """Answer the one job that the name means.

    Args:
        queue: given with `--queue`; the name is then the id, as it stands.

    Raises: JobNotFound; InvalidSetting if several are meant.
    """
    asked = [(queue, name)] if queue is not None else await readings(app, name)
    found = []
    for one_queue, id_ in asked:
        record = await _stored(app, one_queue, id_)
        if record is not None:
            found.append(record)
    if len(found) > 1:
        places = ", ".join(shown(record.ref.queue) for record in found)
        raise InvalidSetting(f"{shown(name)} is a job in several queues ({places}); say --queue")
    if not found:
        where = f" in queue {shown(queue)}" if queue is not None else ""
        raise JobNotFound(
            f"no job {shown(name)}{where}: it was never enqueued here, or its record is no longer kept"
            f"{await namesakes(app, name, queue)}"
        )
    return found[0]


async def namesakes(app: App, name: str, queue: str | None) -> str:
    """Answer, for the end of a complaint, where else jobs of that id are; nothing if there are none.

    Args:
        queue: given with `--queue`; without it, each end of the name that a slash cuts off may be the id.
    """
    ends = [name] if queue is not None else [id_ for _, id_ in _cuts(name)]
    known = await app.queues() if ends else ()
    there = [
        f"{shown(place)}/{shown(id_)}" for id_ in ends for place in known if await _stored(app, place, id_)
    ]
    return f"; there is {', '.join(there)}" if there else ""


async def readings(app: App, name: str) -> list[tuple[str, str]]:
    """Answer each way to read the name: an id in any queue, or a queue and an id."""
    known = await app.queues()
    split = [(queue, id_) for queue, id_ in _cuts(name) if queue in known]
    return [(queue, name) for queue in known] + split


def _cuts(name: str) -> list[tuple[str, str]]:
    cuts = [place for place, character in enumerate(name) if character == "/"]
    return [(name[:cut], name[cut + 1 :]) for cut in cuts]


async def _stored(app: App, queue: str, id_: str) -> JobRecord | None:
    try:
        check_queue(queue)
        check_job_id(id_)
    except InvalidName:
        return None
    return await app.queue(queue).get(id_)
