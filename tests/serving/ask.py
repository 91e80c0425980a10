"""What the tests of serving share: a probe's question, a service manager's socket."""

from __future__ import annotations

import json
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PATIENCE_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """One answer of the probe server."""

    status: int
    head: str
    body: Any


def ask(port: int, path: str, method: str = "GET") -> Reply:
    """Ask one thing, as kubelet does."""
    return ask_raw(port, f"{method} {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())


def ask_raw(port: int, request: bytes) -> Reply:
    """Send bytes, and answer what comes back until the connection is closed."""
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as connection:
        connection.sendall(request)
        answer = b"".join(iter(lambda: connection.recv(65_536), b""))
    head, _, body = answer.decode().partition("\r\n\r\n")
    return Reply(status=int(head.split()[1]), head=head, body=json.loads(body) if body else None)


class Manager:
    """Stands for systemd: a socket that notices are sent to. Owned by the test."""

    def __init__(self, address: str) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(f"\0{address[1:]}" if address.startswith("@") else address)
        self._socket.settimeout(PATIENCE_S)

    def notices(self) -> list[str]:
        """The next datagram's lines; waits for it."""
        return self._socket.recv(4_096).decode().splitlines()

    def wait_for(self, notice: str) -> None:
        """Return when it was told that."""
        while notice not in self.notices():
            pass

    def close(self) -> None:
        """Hear no more."""
        self._socket.close()


def service_socket(folder: Path) -> str:
    """An address for a manager; short, for a path of a socket has at most 107 bytes."""
    return f"{folder}/n" if len(str(folder)) < 100 else f"@leasemq-test-{folder.name}"
