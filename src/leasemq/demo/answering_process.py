"""Prints all jobs of the demo's queue as JSON: `python -m leasemq.demo.answering_process URL`."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from leasemq.app import App
from leasemq.demo.work import QUEUE
from leasemq.protocol.envelope import describe_result
from leasemq.protocol.insight import JobRecord
from leasemq.protocol.model import Outcome

PAGE = 1_000


async def every_job(app: App) -> list[dict[str, Any]]:
    """Answer id, state, result and counts of stalls, releases and refused writes of each job."""
    found: list[dict[str, Any]] = []
    async with app:
        page = await app.queue(QUEUE).find(limit=PAGE)
        found += [_plain(record) for record in page.jobs]
        while page.cursor is not None:
            page = await app.queue(QUEUE).find(cursor=page.cursor, limit=PAGE)
            found += [_plain(record) for record in page.jobs]
    return found


def _plain(record: JobRecord) -> dict[str, Any]:
    id_ = record.ref.id
    return {
        "id": id_,
        "state": record.state.value,
        "result": None if record.result is None else describe_result(record.result, job=id_),
        "stalls": record.stalls,
        "releases": sum(attempt.outcome is Outcome.RELEASED for attempt in record.history),
        "refused": record.refused_count,
    }


if __name__ == "__main__":
    print(json.dumps(asyncio.run(every_job(App(sys.argv[1])))))
