"""Where handlers tell that they ran: a small shared file, written by drivers and read by the harness.

Needs nothing but the standard library, because every peer's environment imports it. A process has one row;
a handler's note costs about a microsecond.
"""

from __future__ import annotations

import mmap
import os
import struct
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROWS = 8
ROW = struct.Struct("<7q")  # count, first ns, last ns, own CPU at both, the servers' CPU at both
LOOK_EVERY = 500  # handlers between two looks at the CPU clocks
_TICK_NS = 1_000_000_000 // os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Seen:
    """What one process's handlers told; times in nanoseconds of the monotonic clock."""

    count: int
    first_ns: int
    last_ns: int
    cpu_ns: int  # of the process, between its first handler and its last look at the clocks
    server_cpu_ns: int


def create(path: Path) -> None:
    """Make an empty board."""
    path.write_bytes(bytes(ROW.size * ROWS))


def read(path: Path) -> list[Seen]:
    """Answer what was told so far, by the processes that told anything."""
    raw = path.read_bytes()
    rows = [ROW.unpack_from(raw, number * ROW.size) for number in range(ROWS)]
    return [
        Seen(count, first, last, cpu_last - cpu_first, server_last - server_first)
        for count, first, last, cpu_first, cpu_last, server_first, server_last in rows
        if count
    ]


class Board:
    """One process's row. Owner: the driver; its handlers may run in several threads of this process."""

    def __init__(self, path: str, row: int, jobs: int, server_pids: Sequence[int]) -> None:
        with open(path, "r+b") as file:  # which the map outlives
            self._map = mmap.mmap(file.fileno(), ROW.size * ROWS)
        self._offset = row * ROW.size
        self._jobs = jobs
        self._server_pids = server_pids
        self._count = self._first_ns = 0
        self._cpu_first = self._cpu_last = self._server_first = self._server_last = 0

    def ran(self) -> None:
        """Tell that a handler ran."""
        now = time.monotonic_ns()
        self._count += 1
        if self._count == 1:
            self._first_ns = now
            self._cpu_first = self._cpu_last = time.process_time_ns()
            self._server_first = self._server_last = cpu_ns_of(self._server_pids)
        elif self._count % LOOK_EVERY == 0 or self._count == self._jobs:
            self._cpu_last = time.process_time_ns()
            self._server_last = cpu_ns_of(self._server_pids)
        ROW.pack_into(
            self._map,
            self._offset,
            self._count,
            self._first_ns,
            now,
            self._cpu_first,
            self._cpu_last,
            self._server_first,
            self._server_last,
        )


def cpu_ns_of(process_ids: Sequence[int]) -> int:
    """Answer the CPU time, user and system, of these processes and of the children they have now."""
    total = 0
    for process_id in process_ids:
        for member in (process_id, *_children(process_id)):
            try:
                stat = Path(f"/proc/{member}/stat").read_text(encoding="ascii", errors="replace")
            except OSError:
                continue
            fields = stat.rpartition(")")[2].split()
            total += (int(fields[11]) + int(fields[12])) * _TICK_NS
    return total


def _children(process_id: int) -> list[int]:
    try:
        text = Path(f"/proc/{process_id}/task/{process_id}/children").read_text(encoding="ascii")
    except OSError:
        return []
    return [int(word) for word in text.split()]
