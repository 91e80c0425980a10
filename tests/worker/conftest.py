"""Worker tests run in virtual time, on memory and on SQLite."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.worker.stage import Play, perform

BACKENDS = ("memory", "sqlite")


@pytest.fixture(params=BACKENDS)
def backend_name(request: pytest.FixtureRequest) -> str:
    """Which backend the test runs on."""
    return str(request.param)


class Theatre:
    """Runs plays on one backend. Owned by the fixture."""

    def __init__(self, backend_name: str, folder: Path) -> None:
        self._backend_name = backend_name
        self._folder = folder

    def __call__(self, play: Play, *, seed: int | None = None) -> None:
        perform(play, self._backend_name, self._folder, seed=seed)


@pytest.fixture
def theatre(backend_name: str, tmp_path: Path) -> Theatre:
    """Performs a play: `theatre(play)`."""
    return Theatre(backend_name, tmp_path)
