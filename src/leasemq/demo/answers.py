"""What the queue says about a run's jobs, read by a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

_MODULE = "leasemq.demo.answering_process"
_WITHIN_S = 60


def ask_queue(url: str) -> list[dict[str, Any]]:
    """Answer id, state, result and counts of stalls, releases and refused writes of each job."""
    asked = subprocess.run(  # noqa: S603 -- our own module, and an address of our own making
        [sys.executable, "-m", _MODULE, url], stdout=subprocess.PIPE, timeout=_WITHIN_S, check=True
    )
    answers: list[dict[str, Any]] = json.loads(asked.stdout)
    return answers
