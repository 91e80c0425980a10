"""A place whose store is a Redis server of the test's own, which the test may harm."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.request import urlopen

from tests.end_to_end.place import APP, COMMAND, Place, Process
from tests.end_to_end.waiting import until
from tests.servers.server import free_port

DURABLE = {"appendfsync": "always"}


@contextmanager
def place_on(folder: Path, url: str) -> Iterator[Place]:
    """Processes that meet at this URL; what they printed is shown when the test fails."""
    place = Place(folder)
    place.use(url)
    try:
        yield place
    finally:
        place.close()
        for process in place.processes:
            print(f"---- {process.log.name}\n{process.output[-4000:]}")


class Probed:
    """A worker that answers probes. Owner: the test; its place ends the process."""

    def __init__(self, place: Place, name: str, *, concurrency: int = 5, lease_s: float = 2) -> None:
        self.port = free_port()
        options = ["--concurrency", str(concurrency), "--lease", str(lease_s), "--name", name]
        self.process: Process = place.run(
            name, *COMMAND, "worker", APP, *options, "--probe-port", str(self.port)
        )
        until(lambda: "WorkerStarted" in self.process.output, f"worker {name} claims")

    def is_ready(self) -> bool:
        """Whether it says so."""
        try:
            with urlopen(f"http://127.0.0.1:{self.port}/ready", timeout=5) as answer:
                return bool(answer.status == 200)
        except HTTPError:
            return False
        except URLError:
            return False

    @property
    def trouble_lines(self) -> list[str]:
        """What it printed of warnings and worse."""
        levels = ("WARNING", "ERROR", "CRITICAL", "Traceback")
        return [line for line in self.process.output.splitlines() if line.startswith(levels)]


def pongs(port: int) -> bool:
    """Whether a server answers PING."""
    with closing(socket.socket()) as connection:
        connection.settimeout(1)
        try:
            connection.connect(("127.0.0.1", port))
            connection.sendall(b"PING\r\n")
            return connection.recv(10).startswith(b"+PONG")
        except OSError:
            return False
