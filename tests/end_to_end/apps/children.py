"""An app whose tasks run in child processes, for `leasemq worker`, and as a program of its own.

As a program it runs one job of a task of its own `__main__`, and prints where that ran.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from itertools import count
from pathlib import Path

from leasemq import App

app = App(os.environ.get("LEASEMQ_URL", "memory://"))


@app.task(name="hold", executor="process")
def hold(folder: str) -> None:
    """Say where it runs, then hold the interpreter for ever, deaf to every order to end."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.setswitchinterval(1e6)
    told = Path(folder) / "child.tmp"
    told.write_text(str(os.getpid()))
    told.rename(Path(folder) / "child")
    sum(1 for _ in count())


@app.task(name="where", executor="process")
def where() -> list[str]:
    """Answer the name of the module that it runs in, and whose child it is."""
    return [__name__, str(os.getppid())]


async def main() -> None:
    """Run one job in a worker of this program."""
    async with app:
        job = await where.enqueue()
        worker = app.worker(queues=["default"])
        async with asyncio.TaskGroup() as group:
            group.create_task(worker.run())
            name, parent = await job.result(timeout=30)
            worker.stop()
    print(name, int(parent) == os.getpid())


if __name__ == "__main__":
    asyncio.run(main())
