"""What handlers, hooks and workers of a test wrote down, each process in a file of its own.

The writing half runs in the worker processes (`apps/`), the reading half in the test. A line is one
write, synced unless the job is one of many thousands, and survives whatever becomes of its process.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.end_to_end.waiting import PATIENCE_S, until

_KNOWN = frozenset({"event", "pid", "at_s", "job", "attempt", "fence"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line: what happened, in which process, when (monotonic, one clock for all processes)."""

    event: str
    pid: int
    at_s: float
    job: str = ""
    attempt: int = 0
    fence: int = 0
    values: dict[str, Any]


class Scribe:
    """One process's file. Owner: that process."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._pid = 0
        self._file = -1

    def write(self, event: str, *, sync: bool = True, **values: object) -> None:
        """Append one line; with `sync`, return when the disk has it."""
        if self._pid != os.getpid():  # a fork writes a file of its own
            self._pid = os.getpid()
            path = self._folder / f"{self._pid}.jsonl"
            self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        line = {"event": event, "pid": self._pid, "at_s": time.monotonic(), **values}
        os.write(self._file, f"{json.dumps(line)}\n".encode())
        if sync:
            os.fsync(self._file)


class Ledger:
    """Reads what all processes of one test wrote."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def lines(self, event: str | None = None, job: str | None = None, pid: int | None = None) -> list[Line]:
        """Every whole line that matches, in the order of time."""
        found = [
            line
            for path in self.folder.glob("*.jsonl")
            for text in path.read_bytes().split(b"\n")[:-1]
            if _matches(line := _parsed(text), event, job, pid)
        ]
        return sorted(found, key=lambda line: line.at_s)

    def starts(self, job: str) -> list[Line]:
        """The runs of one job."""
        return self.lines("start", job)

    def runs(self) -> dict[str, int]:
        """How often each job was started."""
        counted: dict[str, int] = {}
        for line in self.lines("start"):
            counted[line.job] = counted.get(line.job, 0) + 1
        return counted

    def wait(
        self,
        event: str,
        job: str | None = None,
        *,
        nth: int = 1,
        pid: int | None = None,
        within_s: float = PATIENCE_S,
    ) -> Line:
        """Wait for the nth line that matches, and answer it."""

        def found() -> Line | None:
            lines = self.lines(event, job, pid)
            return lines[nth - 1] if len(lines) >= nth else None

        return until(found, f"line {nth} of {event!r} of job {job!r} and process {pid}", within_s)

    def wait_for(self, true: Callable[[Ledger], object], what: str, within_s: float = PATIENCE_S) -> None:
        """Wait until `true` holds of this ledger."""
        until(lambda: true(self), what, within_s)


def _parsed(text: bytes) -> Line:
    values = json.loads(text)
    known = {name: values.pop(name) for name in _KNOWN & values.keys()}
    return Line(**known, values=values)


def _matches(line: Line, event: str | None, job: str | None, pid: int | None) -> bool:
    return (
        (event is None or line.event == event)
        and (job is None or line.job == job)
        and (pid is None or line.pid == pid)
    )
