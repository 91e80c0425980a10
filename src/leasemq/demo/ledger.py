"""What the demo's processes write down for themselves: JSON lines that no queue has a part in.

Each process appends to a file of its own. A line is one write, synced before the writer goes on, so it
is there however the process ends, and never mixed with another.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

Line = Mapping[str, Any]


class Ledger:
    """One process's file. Owner: that process; its threads may write at the same time."""

    def __init__(self, folder: Path, name: str) -> None:
        path = folder / f"{name}.jsonl"
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def write(self, event: str, **values: object) -> None:
        """Append one line and wait until the disk has it."""
        self.write_many(event, [values])

    def write_many(self, event: str, lines: Iterable[Mapping[str, object]]) -> None:
        """Append lines of one kind and wait until the disk has all of them."""
        for values in lines:
            line = json.dumps({"event": event, "pid": os.getpid(), **values})
            os.write(self._file, f"{line}\n".encode())
        os.fsync(self._file)


class Ledgers:
    """All the ledgers of a folder, read on from where the last look ended. Owner: the demo's main thread."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._read_bytes: dict[Path, int] = {}
        self._lines: list[Line] = []

    def look(self) -> Sequence[Line]:
        """Answer every whole line so far; those of one ledger in its own order."""
        for path in sorted(self._folder.glob("*.jsonl")):
            begin = self._read_bytes.get(path, 0)
            with path.open("rb") as file:
                file.seek(begin)
                whole, end, _ = file.read().rpartition(b"\n")  # what follows the last line end is not whole
            self._read_bytes[path] = begin + len(whole) + len(end)
            self._lines += [json.loads(text) for text in whole.splitlines()]
        return self._lines
