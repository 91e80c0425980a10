"""A worker process whose loops meet an error of ours."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Command

BROKEN = """
from leasemq import App
from leasemq.backends.memory import MemoryBackend

class Broken(MemoryBackend):
    async def expired(self, queue, limit):
        raise LookupError("a bug of ours")

app = App(Broken())

@app.task(name="add", lease=1)
def add(a: int, b: int) -> int:
    return a + b
"""


@pytest.mark.promise("P-82")
def test_the_exit_code_of_a_worker_that_meets_a_bug_is_the_one_that_it_logs(
    folder: Path, leasemq_process: Command
) -> None:
    (folder / "broken.py").write_text(BROKEN)
    answer = leasemq_process("worker", "broken:app")
    assert answer.code == 70
    assert "exit_code=70" in answer.err
    assert "LookupError: a bug of ours" in answer.err
