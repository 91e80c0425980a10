"""What every throwaway server has: a process that can be started, stopped, killed, frozen and restarted."""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from types import TracebackType
from typing import Self

HOST = "127.0.0.1"
KEEPER = Path(__file__).with_name("keeper.py")
PATIENCE_S = 30.0
LOOK_EVERY_S = 0.005
STARTS = 5  # somebody else may take the port between our look and the server's
PORTS = range(
    10_240, 32_000
)  # below those that the system gives to clients, which would take a stopped one's


class ServerFailed(AssertionError):
    """A server did not start, or did not do what it was told in time."""


def until(holds: Callable[[], object], what: str, within_s: float = PATIENCE_S) -> None:
    """Wait for a condition. Raises: ServerFailed, naming `what`."""
    deadline = time.monotonic() + within_s
    while not holds():
        if time.monotonic() > deadline:
            raise ServerFailed(f"not within {within_s:g} s: {what}")
        time.sleep(LOOK_EVERY_S)


def free_port() -> int:
    """A port that nobody listens at."""
    for port in random.sample(PORTS, k=200):
        with closing(socket.socket()) as trial, suppress(OSError):
            trial.bind((HOST, port))
            return port
    raise ServerFailed("none of 200 ports is free")


def is_listening(port: int) -> bool:
    """Whether somebody accepts connections there."""
    with closing(socket.socket()) as trial:
        return trial.connect_ex((HOST, port)) == 0


class Server(ABC):
    """One server, started any number of times on the same port and folder. Owner: the test or fixture."""

    stop_signal = signal.SIGTERM

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.port = free_port()
        self.log = folder / "log"
        self._keeper: subprocess.Popen[bytes] | None = None
        self._pid = 0

    @property
    @abstractmethod
    def url(self) -> str:
        """What an App takes."""

    @abstractmethod
    def command(self) -> Sequence[str]:
        """What is run."""

    @abstractmethod
    def is_ready(self) -> bool:
        """Whether it answers."""

    def user(self) -> str:
        """Whom it runs as; "" for whoever runs the tests."""
        return ""

    @property
    def pid(self) -> int:
        """The server's own process. Raises: ServerFailed when it does not run."""
        if not self.is_alive:
            raise ServerFailed(f"{type(self).__name__} does not run")
        return self._pid

    @property
    def is_alive(self) -> bool:
        """Whether it has been started and has not ended."""
        return self._keeper is not None and self._keeper.poll() is None

    def start(self) -> Self:
        """Start it and return when it answers; the first time on another port if this one was taken."""
        for _ in range(STARTS):
            if self._has_started():
                return self
            self.port = free_port()
        raise ServerFailed(f"{' '.join(self.command())} ended:\n{self.output()[-2000:]}")

    def restart(self) -> Self:
        """Start it again on the same port; stop it first if it runs."""
        self.stop()
        if not self._has_started():
            raise ServerFailed(f"{' '.join(self.command())} ended:\n{self.output()[-2000:]}")
        return self

    def stop(self) -> None:
        """End it as an operator would; what it keeps on disk stays."""
        if self.is_alive:
            self.thaw()
            os.kill(self._pid, self.stop_signal)
        self._reap()

    def kill(self) -> None:
        """SIGKILL to the server and whatever it has started."""
        if self.is_alive:
            os.kill(self._pid, signal.SIGKILL)
        self._reap()

    def freeze(self) -> None:
        """SIGSTOP to the server and its children."""
        for pid in self._family():
            os.kill(pid, signal.SIGSTOP)
        until(lambda: all(map(_is_stopped, self._family())), "the server is frozen")

    def thaw(self) -> None:
        """SIGCONT to all of them."""
        for pid in self._family():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)

    def close(self) -> None:
        """End it for good."""
        self.kill()

    def output(self) -> str:
        """What it has printed."""
        return self.log.read_text(encoding="utf-8", errors="replace") if self.log.exists() else ""

    def _has_started(self) -> bool:
        """Whether it answers; not so if it has ended."""
        with self.log.open("ab") as log:
            self._keeper = subprocess.Popen(
                [sys.executable, "-I", "-S", str(KEEPER), self.user(), *self.command()],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
            )
        assert self._keeper.stdout is not None
        self._pid = int(self._keeper.stdout.readline())
        until(lambda: self.is_ready() or not self.is_alive, f"{self.command()[0]} answers")
        if not self.is_alive:
            self._reap()
        return self.is_alive

    def _reap(self) -> None:
        """Wait for its end, and only then close the pipes: the keeper kills what nobody holds."""
        if self._keeper is not None:
            self._keeper.wait()
            with self._keeper:
                pass
        self._keeper = None

    def _family(self) -> list[int]:
        return [self._pid, *_descendants(self._pid)] if self.is_alive else []

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Several:
    """Servers that live together. Owner: the test or fixture."""

    def __init__(self) -> None:
        self.servers: list[Server] = []

    @property
    def port(self) -> int:
        """The first one's."""
        return self.servers[0].port

    @property
    def pid(self) -> int:
        """The first one's."""
        return self.servers[0].pid

    def stop(self) -> None:
        """End all as an operator would."""
        self._each(lambda server: server.stop())

    def kill(self) -> None:
        """SIGKILL to all."""
        self._each(lambda server: server.kill())

    def freeze(self) -> None:
        """SIGSTOP to all."""
        self._each(lambda server: server.freeze())

    def thaw(self) -> None:
        """SIGCONT to all."""
        self._each(lambda server: server.thaw())

    def close(self) -> None:
        """End all for good."""
        self._each(lambda server: server.close())

    def _each(self, act: Callable[[Server], object]) -> None:
        with ExitStack() as stack:  # all of them, also when one fails
            for server in self.servers:
                stack.callback(act, server)


def _descendants(pid: int) -> Iterator[int]:
    with suppress(OSError):
        for child in Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split():
            yield int(child)
            yield from _descendants(int(child))


def _is_stopped(pid: int) -> bool:
    try:
        status = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return True
    return status.rpartition(")")[2].split()[0] in "TZX"
