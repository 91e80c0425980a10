"""Follows the feed of all queues and prints each event as a line of JSON, for ever."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from dataclasses import asdict

from leasemq import App
from tests.end_to_end.apps.work import app_on, scribe


async def follow(app: App, cursor: str) -> None:
    """Print what happens after a cursor."""
    async with app:
        scribe().write("opened")
        async for event in app.events(cursor):
            told = {"queue": event.queue, "id": event.id, "kind": event.kind, "cursor": event.cursor}
            progress = None if event.progress is None else asdict(event.progress)
            print(json.dumps(told | {"progress": progress}), flush=True)


if __name__ == "__main__":
    asyncio.run(follow(app_on(os.environ["LEASEMQ_URL"]), *sys.argv[1:] or [""]))
