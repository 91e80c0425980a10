"""Answers `GET /live`, `/ready` and `/startup` from threads of its own: no loop can hold up an answer.

A few connections at a time, each read within two seconds and up to 8 KiB: whoever can reach the port can
learn no more than the state; connections that say nothing give way to those that come after them.
"""

from __future__ import annotations

import json
import logging
import socket
import socketserver
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from leasemq.clock import boot_ms
from leasemq.errors import InvalidSetting
from leasemq.serving.view import View

LOCALHOST = "127.0.0.1"
AT_ONCE = 8
READ_MS = 2_000
REQUEST_BYTES = 8 * 1_024
CLOSE_S = 0.05

logger = logging.getLogger("leasemq.probes")
Look = Callable[[], View]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeAddress:
    """Where probes are answered; port 0: any that is free, told in the log. Raises: InvalidSetting."""

    port: int
    host: str = LOCALHOST

    def __post_init__(self) -> None:
        if type(self.port) is not int or not 0 <= self.port <= 65_535:
            raise InvalidSetting(f"probe_port={self.port!r} is not a port from 0 to 65,535")
        if not self.host:
            raise InvalidSetting(f"probe_host={self.host!r} is not an address; say 127.0.0.1 or 0.0.0.0")


class ProbeServer:
    """Listens from `__init__` on; `close` ends it. Owner: whoever runs the worker, or the supervisor.

    Raises: InvalidSetting if the address cannot be had.
    """

    def __init__(self, address: ProbeAddress, look: Look) -> None:
        try:
            self._server = _Server(address, look)
        except (OSError, UnicodeError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise InvalidSetting(
                f"probes cannot be answered on port {address.port} of {address.host}: {reason}; "
                "choose another, or 0 for any that is free"
            ) from error
        self.port: int = self._server.server_address[1]
        logger.info("probes are answered on %s port %d", address.host, self.port)
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(CLOSE_S,), name="leasemq-probes", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """Answer no more."""
        self._server.shutdown()
        self._server.server_close()


class _Server(socketserver.ThreadingMixIn, socketserver.TCPServer):
    allow_reuse_address = True
    daemon_threads = True
    block_on_close = False
    request_queue_size = 32

    def __init__(self, address: ProbeAddress, look: Look) -> None:
        self.look = look
        self._guard = threading.Lock()
        self._open: deque[socket.socket] = deque()  # what is being answered, the oldest first
        self.address_family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
        super().__init__((address.host, address.port), _Exchange)

    def verify_request(self, request: Any, client_address: Any) -> bool:
        """Take it; of too many at once the oldest has to go, which is a slow one."""
        with self._guard:
            self._open.append(request)
            oldest = self._open.popleft() if len(self._open) > AT_ONCE else None
        if oldest is not None:
            with suppress(OSError):  # it is closed already
                oldest.shutdown(socket.SHUT_RDWR)
        return True

    def process_request(self, request: Any, client_address: Any) -> None:
        """Start the thread that answers."""
        try:
            super().process_request(request, client_address)
        except RuntimeError:  # no thread can be started
            self._forget(request)
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer one, in a thread."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._forget(request)

    def _forget(self, request: Any) -> None:
        with self._guard, suppress(ValueError):  # it had to go
            self._open.remove(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Note what went wrong between a probe and us; the next is answered all the same."""
        logger.debug("a probe was not answered", exc_info=True)


class _Exchange(socketserver.BaseRequestHandler):
    """One request and its answer."""

    server: _Server

    def handle(self) -> None:
        """Read the request's head within its bounds, and answer."""
        head = self._head()
        if head is None:
            return self._answer("GET", HTTPStatus.REQUEST_TIMEOUT, {"error": "the request came too slowly"})
        if len(head) > REQUEST_BYTES:
            return self._answer(
                "GET", HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, {"error": "the request is too long"}
            )
        words = head.split(b"\n", 1)[0].decode("latin-1").split()
        if len(words) != 3 or not words[2].startswith("HTTP/"):
            return self._answer("GET", HTTPStatus.BAD_REQUEST, {"error": "that is no HTTP request"})
        method, path = words[0], words[1].partition("?")[0]
        if method not in ("GET", "HEAD"):
            return self._answer(
                method, HTTPStatus.METHOD_NOT_ALLOWED, {"error": "only GET and HEAD are answered"}
            )
        return self._answer(method, *_judged(path, self.server.look))

    def _head(self) -> bytes | None:
        """Answer what came up to the blank line, or more than is allowed; None: not in time."""
        until_ms = boot_ms() + READ_MS
        head = b""
        while b"\r\n\r\n" not in head and b"\n\n" not in head and len(head) <= REQUEST_BYTES:
            left_ms = until_ms - boot_ms()
            if left_ms <= 0:
                return None
            self.request.settimeout(left_ms / 1_000)
            try:
                part = self.request.recv(4_096)
            except TimeoutError:
                return None
            if not part:
                break
            head += part
        return head

    def _answer(self, method: str, status: HTTPStatus, told: dict[str, object]) -> None:
        body = json.dumps(told).encode() + b"\n"
        lines = (
            f"HTTP/1.1 {status.value} {status.phrase}",
            "Content-Type: application/json",
            f"Content-Length: {len(body)}",
            "Cache-Control: no-store",
            "Connection: close",
            *(("Allow: GET, HEAD",) if status is HTTPStatus.METHOD_NOT_ALLOWED else ()),
        )
        head = "\r\n".join(lines).encode() + b"\r\n\r\n"
        self.request.settimeout(READ_MS / 1_000)
        self.request.sendall(head if method == "HEAD" else head + body)


def _judged(path: str, look: Look) -> tuple[HTTPStatus, dict[str, object]]:
    if path not in ("/live", "/ready", "/startup"):
        return HTTPStatus.NOT_FOUND, {"error": "there are /live, /ready and /startup"}
    view = look()
    answers: dict[str, object] = {"live": view.live, "ready": view.ready, "startup": view.startup}
    is_so = answers[path[1:]]
    return (HTTPStatus.OK if is_so else HTTPStatus.SERVICE_UNAVAILABLE), {**view.facts, **answers}
