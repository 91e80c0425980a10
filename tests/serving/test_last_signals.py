"""What reaches a supervised worker while its interpreter ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

WORKER = """
import asyncio, os
from leasemq.serving.reports import Post, post
from leasemq.worker_setup import stopped_by_signals

class Stopped:
    def stop(self): pass

class EndedByTheInterpreter:
    def __del__(self):
        for number in (1, 2, 10, 15):
            os.kill(os.getpid(), number)

async def serve():
    post.set(Post(fd=1, supervisor_pid=os.getppid()))
    with stopped_by_signals(Stopped()):
        pass

asyncio.run(serve())
at_the_end = EndedByTheInterpreter()
"""


@pytest.mark.promise("P-81")
def test_a_signal_at_the_very_end_does_not_take_the_exit_code_away(tmp_path: Path) -> None:
    assert [signal.SIGHUP, signal.SIGINT, signal.SIGUSR1, signal.SIGTERM] == [1, 2, 10, 15]
    ended = subprocess.run(
        [sys.executable, "-c", WORKER], cwd=tmp_path, env=dict(os.environ), timeout=60, check=False
    )
    assert ended.returncode == 0
