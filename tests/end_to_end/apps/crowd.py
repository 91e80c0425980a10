"""Enqueues the same thing in many processes at one moment, and prints what each call was answered.

`crowd PROCESSES CALLS` prints a JSON object: for each way of naming a job, how often each answer came.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections import Counter

from leasemq import Unique
from tests.end_to_end.apps.work import app_on, task_of


async def enqueue_at_once(gate: int, ready: int, answers: int, calls: int) -> None:
    """Open the app, say so, wait for the gate, call, and tell the answers."""
    app = app_on(os.environ["LEASEMQ_URL"])
    quick = task_of(app, "quick")
    named = {
        "id": quick.options(id="X"),
        "skip": quick.options(unique="skip"),
        "replace": quick.options(unique=Unique(key="replace", mode="replace")),
        "debounce": quick.options(unique=Unique(key="debounce", mode="debounce", window=3_600)),
        "throttle": quick.options(unique=Unique(key="throttle", mode="throttle", window=3_600)),
    }
    async with app:
        os.write(ready, b"r")
        os.read(gate, 1)  # nothing is ever written: it returns when the last writer has closed it
        for way, enqueuing in named.items():
            jobs = await asyncio.gather(*(enqueuing.enqueue() for _ in range(calls)))
            told = Counter(f"{way} {job.acceptance}" for job in jobs)
            os.write(answers, f"{json.dumps(told)}\n".encode())  # short enough to be written in one piece


def main(processes: int, calls: int) -> None:
    """Start the processes, open the gate once all are ready, and print what they were answered."""
    (gate, opener), (ready, say_ready), (answers, tell) = os.pipe(), os.pipe(), os.pipe()
    children = []
    for _ in range(processes):
        child = os.fork()
        if child == 0:
            os.close(opener)
            asyncio.run(enqueue_at_once(gate, say_ready, tell, calls))
            os._exit(0)
        children.append(child)
    os.close(say_ready)
    os.close(tell)
    for _ in range(processes):
        assert os.read(ready, 1) == b"r", "a process has ended before it was ready"
    os.close(opener)
    with os.fdopen(answers) as told:
        counted: Counter[str] = sum((Counter(json.loads(line)) for line in told), Counter())
    codes = {os.waitpid(child, 0)[1] for child in children}
    print(json.dumps(counted), flush=True)
    sys.exit(max(codes))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
