"""The worker processes of a demo run: started, killed, frozen, thawed, and all ended in the end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

WORKER_MODULE = "leasemq.demo.worker_process"


class Crew:
    """Owns every process of the demo; leaving the context kills those that still run.

    Each has a session of its own, so that Ctrl-C reaches the demo alone, and reads its standard input,
    whose end tells it that the demo is gone.
    """

    def __init__(self, arguments: Sequence[str], log_folder: Path) -> None:
        self._arguments = tuple(arguments)
        self._log_folder = log_folder
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self._names: dict[int, str] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for pid in self.alive:
            self.kill(pid)
        for process in self._processes.values():
            if process.stdin is not None:
                process.stdin.close()

    @property
    def alive(self) -> tuple[int, ...]:
        """The processes that have not ended, frozen ones included, oldest first."""
        return tuple(pid for pid, process in self._processes.items() if process.poll() is None)

    def name(self, pid: int) -> str:
        """What a process is called on the screen."""
        return self._names.get(pid, f"process {pid}")

    def start(self) -> int:
        """Start a worker process and answer its pid."""
        name = f"worker {len(self._processes) + 1}"
        with (self._log_folder / f"{name.replace(' ', '-')}.log").open("wb") as log:
            process = subprocess.Popen(  # noqa: S603 -- our own module, and arguments of our own making
                [sys.executable, "-m", WORKER_MODULE, *self._arguments, "--name", name.replace(" ", "-")],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._processes[process.pid] = process
        self._names[process.pid] = name
        return process.pid

    def freeze(self, pid: int) -> None:
        """Stop a process where it stands."""
        os.kill(pid, signal.SIGSTOP)

    def thaw(self, pid: int) -> None:
        """Let a frozen process go on."""
        os.kill(pid, signal.SIGCONT)

    def kill(self, pid: int) -> None:
        """End a process without a word, frozen or not, and wait for its end."""
        self._processes[pid].kill()
        self._processes[pid].wait()

    def is_frozen(self, pid: int) -> bool:
        """Whether the kernel reports the process as stopped (waitid(2); it stays to be waited for)."""
        with suppress(ChildProcessError):
            state = os.waitid(os.P_PID, pid, os.WSTOPPED | os.WNOHANG | os.WNOWAIT)
            return state is not None
        return False

    def dismiss(self, timeout_s: float) -> list[str]:
        """Ask all to stop and answer the names of those that had to be killed after `timeout_s`."""
        asked = self.alive
        for pid in asked:
            self._processes[pid].terminate()
        late = []
        for pid in asked:
            try:
                self._processes[pid].wait(timeout_s)
            except subprocess.TimeoutExpired:
                self.kill(pid)
                late.append(self.name(pid))
        return late
