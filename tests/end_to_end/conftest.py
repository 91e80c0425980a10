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
def _signals_are_heard() -> Iterator[None]:
    """Let the processes hear what nohup(1), or a shell that runs the tests in its background, has ignored."""
    before = {number: signal.getsignal(number) for number in (signal.SIGHUP, signal.SIGINT)}
    for number, handler in before.items():
        if handler is signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture
def place(tmp_path: Path, backend_name: str) -> Iterator[Place]:
    """A folder, a file and a ledger; whatever process a test leaves is ended, and its output shown."""
    place = Place(tmp_path)
    yield place
    place.close()
    for process in place.processes:
        print(f"---- {process.log.name}\n{process.output[-4000:]}")
