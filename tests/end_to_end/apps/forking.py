"""A process that has used its app makes children which enqueue and work: `forking fork|spawn`.

A child that was forked has the parent's open files and connections, and must use none of them.

The parent enqueues one job before and one after; four children enqueue 250 each, and run workers until
all 1,002 jobs are done.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import sys
from contextlib import suppress
from pathlib import Path

from leasemq import App
from tests.end_to_end.apps.work import LOOK_EVERY_S, app_on, folder, opened, task_of
from tests.end_to_end.place import QUEUE

CHILDREN = 4
EACH = 250
ONE_BY_ONE = 20
ALL = 2 + CHILDREN * EACH

_app: App | None = None


def app() -> App:
    """This process's app; after a fork, the parent's object."""
    global _app  # noqa: PLW0603  a fork must find the very app that the parent has used
    if _app is None:
        _app = app_on(os.environ["LEASEMQ_URL"])
    return _app


def child(method: str) -> None:
    """Enqueue by the synchronous face, one by one and many at once, then work until all is done."""
    inherited = open_files()
    assert bool(inherited) == (method == "fork"), inherited
    nothing = os.open(os.devnull, os.O_RDWR)
    for file in inherited:
        os.dup2(nothing, file)  # whoever used the parent's would now find nothing in it
    counted = task_of(app(), "counted")
    for _ in range(ONE_BY_ONE):
        counted.enqueue_sync()
    counted.enqueue_many_sync([()] * (EACH - ONE_BY_ONE))
    asyncio.run(work_until_all_is_done())
    assert is_served() or open_files().isdisjoint(inherited)  # the numbers of sockets are given anew at once


def is_served() -> bool:
    """Whether a server has the store."""
    return not os.environ["LEASEMQ_URL"].startswith("sqlite")


def open_files() -> set[int]:
    """This process's descriptors of the store's files, or its sockets where the store is on a server."""
    store = "socket:" if is_served() else str(folder() / "jobs.db")
    found = set()
    for entry in Path("/proc/self/fd").iterdir():
        with suppress(OSError):  # the one that reads the folder is gone by now
            if os.readlink(entry).startswith(store):
                found.add(int(entry.name))
    return found


async def work_until_all_is_done() -> None:
    """Run a worker."""
    async with app():
        worker = app().worker(concurrency=10, lease=10)
        async with asyncio.TaskGroup() as group:
            group.create_task(worker.run())
            await opened("enqueued")
            while await completed() < ALL:  # noqa: ASYNC110  other processes complete jobs too
                await asyncio.sleep(LOOK_EVERY_S)
            worker.stop()


async def completed() -> int:
    """How many jobs are done."""
    return (await app().queue(QUEUE).counts()).completed


def main(method: str) -> int:
    """Answer 0 if every child did."""
    counted = task_of(app(), "counted")
    counted.enqueue_sync()
    multiprocessing.set_start_method(method)
    children = [multiprocessing.Process(target=child, args=(method,)) for _ in range(CHILDREN)]
    for one in children:
        one.start()
    counted.enqueue_sync()
    (folder() / "enqueued").touch()
    for one in children:
        one.join()
    return sum(one.exitcode != 0 for one in children)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
