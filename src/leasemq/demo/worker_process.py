"""One worker process of the demo: `python -m leasemq.demo.worker_process`, started by `crew.py`."""

from __future__ import annotations

import argparse
import logging
import os
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import cast

from leasemq.backend import Backend
from leasemq.client.schemes import open_backend
from leasemq.demo.in_front import WorstMoment
from leasemq.demo.ledger import Ledger
from leasemq.demo.sabotage import Sabotage, sabotaged
from leasemq.demo.work import LEASE_S, QUEUE, Checksums

DRAIN_S = 10
ABANDONED = 3  # the exit code when the demo is gone


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the demo's jobs until told to stop; answers the exit code."""
    parser = argparse.ArgumentParser(prog="leasemq.demo.worker_process", description=__doc__)
    parser.add_argument("--url", required=True)
    parser.add_argument("--ledgers", type=Path, required=True, help="the folder for this process's ledger")
    parser.add_argument("--hold", type=Path, required=True, help="the file that says whom to hold, and where")
    parser.add_argument("--sabotage", type=Sabotage, choices=list(Sabotage), default=None)
    parser.add_argument("--name", required=True)
    given = parser.parse_args(arguments)
    logging.basicConfig(level=logging.INFO)
    threading.Thread(target=_leave_with_the_demo, name="demo-watch", daemon=True).start()
    ledger = Ledger(given.ledgers, given.name)
    honest = sabotaged(open_backend(given.url), given.sabotage)
    backend = cast("Backend", WorstMoment(honest, given.hold, ledger))
    return Checksums(backend, ledger).app.run_worker(
        queues=[QUEUE], concurrency=1, lease=LEASE_S, drain=DRAIN_S, name=given.name
    )


def _leave_with_the_demo() -> None:
    """The standard input ends when the process that started this one is gone."""
    while os.read(sys.stdin.fileno(), 1):  # unbuffered: a buffer's lock would hold up this process's own end
        pass
    os._exit(ABANDONED)


if __name__ == "__main__":
    sys.exit(main())
