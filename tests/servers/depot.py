"""The servers that all tests of one run use together, each started when the first test asks for it.

The run's first process (pytest's own, not a worker of pytest-xdist; or the runner of the planted faults)
opens a depot; whatever it starts asks the depot over a socket whose path is in the environment.
"""

from __future__ import annotations

import json
import os
import socket
import socketserver
import tempfile
import threading
from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing
from functools import cache
from pathlib import Path

from tests.servers.postgres_server import PostgresServer
from tests.servers.redis_cluster import RedisCluster
from tests.servers.redis_server import RedisServer
from tests.servers.server import Server, ServerFailed, Several

GIVEN = "LEASEMQ_TEST_SERVERS"  # JSON, name -> URL: servers that somebody runs already
DEPOT = "LEASEMQ_TEST_DEPOT"  # the path of the depot's socket
START_WITHIN_S = 60.0
STARTERS: Mapping[str, Callable[[Path], Server | Several]] = {
    "postgres": PostgresServer,
    "redis": RedisServer,
    "redis-cluster": RedisCluster,
}


@cache
def shared(name: str) -> str:
    """The URL of the run's server of that name, started now if nobody has asked for it before.

    Raises: ServerFailed, with what the server said.
    """
    if (given := json.loads(os.environ.get(GIVEN, "{}")).get(name)) is not None:
        return str(given)
    if DEPOT not in os.environ:
        raise ServerFailed(f"no depot of servers is open; set {GIVEN} to JSON such as {{{name!r}: URL}}")
    with closing(socket.socket(socket.AF_UNIX)) as connection, connection.makefile("rw") as talk:
        connection.settimeout(START_WITHIN_S)
        connection.connect(os.environ[DEPOT])
        talk.write(f"{name}\n")
        talk.flush()
        answer = json.loads(talk.readline())
    if "url" not in answer:
        raise ServerFailed(f"{name} did not start: {answer['error']}")
    return str(answer["url"])


class Depot:
    """Starts servers on demand. Owner: the run's first process, which closes it."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._urls: dict[str, str] = {}
        self._turn = threading.Lock()
        own = tempfile.TemporaryDirectory(prefix="leasemq-servers-", ignore_cleanup_errors=True)
        self._folder = Path(self._stack.enter_context(own))
        path = str(self._folder / "depot")
        self._socket = _Listening(path, _Asked)
        self._socket.depot = self
        self._thread = threading.Thread(target=self._socket.serve_forever, daemon=True, name="depot")
        self._thread.start()
        os.environ[DEPOT] = path

    def url(self, name: str) -> str:
        """The server's URL. Raises: ServerFailed; KeyError for an unknown name."""
        with self._turn:
            if name not in self._urls:
                server = STARTERS[name](self._folder / name)
                self._stack.callback(server.close)
                self._urls[name] = server.start().url
            return self._urls[name]

    def close(self) -> None:
        """End all of them."""
        os.environ.pop(DEPOT, None)
        self._socket.shutdown()
        self._socket.server_close()
        self._thread.join()
        self._stack.close()


class _Listening(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True
    depot: Depot


class _Asked(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        name = self.rfile.readline().decode().strip()
        assert isinstance(self.server, _Listening)
        try:
            answer = {"url": self.server.depot.url(name)}
        except (ServerFailed, OSError, KeyError, ImportError) as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        self.wfile.write(json.dumps(answer).encode() + b"\n")
