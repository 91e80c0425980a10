"""What every driver shares: its orders, and how it answers. Needs nothing but the standard library.

A driver is run as `python DRIVER.py ORDERS`, ORDERS being a JSON object, and prints one JSON object:

* `fill`: enqueue `jobs` jobs with the peer's best bulk call; answers `seconds`.
* `single`: enqueue `jobs` jobs, each call awaited before the next; answers `seconds`.
* `gathered`: enqueue `jobs` jobs by 100 callers at once; answers `seconds`.
* `work`: run a worker for ever; handlers tell the board. The harness ends it.
* `timed`: enqueue `jobs` jobs, one every `gap_s`, whose argument is the monotonic clock; a worker in
  another process writes start minus that clock to `samples`. In memory, `work` does both.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from board import Board

PAYLOAD = "x" * 100


@dataclass
class Orders:
    """What to do, and on what."""

    action: str
    url: str
    jobs: int
    concurrency: int = 100
    board: str = ""
    row: int = 0
    server_pids: list[int] = field(default_factory=list)
    samples: str = ""  # latency: a file that takes a number of nanoseconds per line
    gap_s: float = 0.02
    work_ms: float = 0.0  # what each handler costs in CPU; 0: nothing
    sleep_s: float = 0.0  # how long each handler sleeps before that
    options: dict[str, Any] = field(default_factory=dict)

    def handler(self) -> Callable[[str], None]:
        """Answer what a job does: tell the board, or write down how late it was."""
        if self.samples:
            out = open(self.samples, "a", buffering=1, encoding="ascii")  # noqa: SIM115  till the end

            def late(sent: str) -> None:
                out.write(f"{time.monotonic_ns() - int(sent)}\n")

            return late
        told = Board(self.board, self.row, self.jobs, self.server_pids)
        if not self.work_ms:
            return lambda _: told.ran()
        spell_ns = int(self.work_ms * 1_000_000)

        def busy(_: str) -> None:
            until = time.thread_time_ns() + spell_ns
            while time.thread_time_ns() < until:
                pass
            told.ran()

        return busy


def orders() -> Orders:
    """Read what the harness asks for."""
    return Orders(**json.loads(sys.argv[1]))


def answer(seconds: float) -> None:
    """Tell the harness how long it took."""
    print(json.dumps({"seconds": seconds}), flush=True)
