"""Cancels jobs just as workers take them: `cancelling ID...`; writes down what each answer was.

A job's turn comes when it is at most some places from being taken, or was taken some places ago.
"""

from __future__ import annotations

import asyncio
import os
import random
import sys
from collections.abc import Iterable, Sequence

from leasemq import App
from tests.end_to_end.apps.work import LOOK_EVERY_S, app_on, scribe
from tests.end_to_end.place import QUEUE

AHEAD, BEHIND = 40, 40
LANES = 5  # that cancel at once


async def cancel_all(ids: Sequence[str], dice: random.Random) -> None:
    """Cancel all of them, nearly in order."""
    app = app_on(os.environ["LEASEMQ_URL"])
    async with app, asyncio.TaskGroup() as group:
        await app.queue(QUEUE).counts()
        scribe().write("ready")
        for lane in range(LANES):
            group.create_task(cancel_some(app, ids, range(lane, len(ids), LANES), dice))


async def cancel_some(app: App, ids: Sequence[str], places: Iterable[int], dice: random.Random) -> None:
    """Cancel those at these places of the queue, each when its turn comes."""
    queue = app.queue(QUEUE)
    taken = 0
    for place in places:
        taken_then = min(place + dice.randrange(-AHEAD, BEHIND), len(ids))
        while taken < taken_then:
            taken = len(ids) - (await queue.counts()).waiting
            if taken < taken_then:
                await asyncio.sleep(LOOK_EVERY_S / 5)
        answer = await app.job(QUEUE, ids[place]).cancel()
        scribe().write("cancelled", sync=False, job=ids[place], answer=answer.value)


if __name__ == "__main__":
    asyncio.run(cancel_all(sys.argv[1:], random.Random(1)))
