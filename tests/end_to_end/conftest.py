"""Fixtures of the tests with real processes; all run on SQLite."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.end_to_end.place import Place


@pytest.fixture
def backend_name() -> str:
    """The backend that these tests show promises on."""
    return "sqlite"


@pytest.fixture(autouse=True)
def _hang_ups_are_heard() -> Iterator[None]:
    """Let the processes hear SIGHUP although nohup(1), around these tests, has it ignored."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.fixture
def place(tmp_path: Path, backend_name: str) -> Iterator[Place]:
    """A folder, a file and a ledger; whatever process a test leaves is ended, and its output shown."""
    place = Place(tmp_path)
    yield place
    place.close()
    for process in place.processes:
        print(f"---- {process.log.name}\n{process.output[-4000:]}")
