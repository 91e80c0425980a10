"""Where messages begin and end on a connection: RESP, and PostgreSQL's protocol version 3.

A *reply* is what answers one request: for Redis one value, for PostgreSQL everything up to ReadyForQuery.
https://redis.io/docs/latest/develop/reference/protocol-spec/
https://www.postgresql.org/docs/15/protocol-message-formats.html
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Protocol

CRLF = b"\r\n"
AGGREGATES = b"*%~>|"
BLOBS = b"$=!"
SUBSCRIBING = (b"SUBSCRIBE", b"SSUBSCRIBE", b"PSUBSCRIBE", b"MONITOR", b"SYNC", b"PSYNC")
SCRIPTS = (b"EVALSHA", b"EVAL", b"EVALSHA_RO", b"FCALL")
PLAIN_ANSWER_CODES = (80877103, 80877104)  # SSLRequest, GSSENCRequest: answered by one byte without a frame
NOTIFICATION, READY_FOR_QUERY = b"A", b"Z"


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """Whole messages. `ends_reply`: the last of a reply; `counts`: of a reply that faults are about."""

    data: bytes
    counts: bool = False
    ends_reply: bool = False


class Framing(Protocol):
    """What a connection's two directions are cut into."""

    def sent(self, data: bytes) -> None:
        """Learn what the client has sent."""

    def answered(self, data: bytes) -> list[Piece]:
        """Cut what the server has sent; an unfinished rest is kept for the next time."""


def framing_for(first: bytes) -> Framing:
    """By a client's first bytes: PostgreSQL's begin with a length, Redis' with a letter or an asterisk."""
    return PostgresFraming() if first[:1] == b"\0" else RespFraming()


class RespFraming:
    """Counts the replies to scripts. Owner: one connection."""

    def __init__(self) -> None:
        self._requests = bytearray()
        self._replies = bytearray()
        self._asked: deque[bytes] = deque()
        self._is_subscriber = False

    def sent(self, data: bytes) -> None:
        """See `Framing.sent`."""
        self._requests += data
        start = 0
        while (end := value_end(self._requests, start)) is not None:
            self._asked.append(_command(bytes(self._requests[start : min(end, start + 200)])))
            self._is_subscriber |= self._asked[-1] in SUBSCRIBING
            start = end
        del self._requests[:start]

    def answered(self, data: bytes) -> list[Piece]:
        """See `Framing.answered`."""
        self._replies += data
        if self._is_subscriber:  # pushes from here on, which answer nothing
            whole, self._replies = bytes(self._replies), bytearray()
            return [Piece(data=whole)]
        pieces, start = [], 0
        while (end := value_end(self._replies, start)) is not None:
            whole = bytes(self._replies[start:end])
            asked = self._asked.popleft() if self._asked and whole[:1] != b">" else b""
            pieces.append(Piece(data=whole, counts=asked in SCRIPTS, ends_reply=True))
            start = end
        del self._replies[:start]
        return pieces


def value_end(data: bytes | bytearray, start: int) -> int | None:
    """Where the RESP value (or inline command) that begins at `start` ends; None if not all is there."""
    line_end = data.find(CRLF, start)
    if line_end < 0:
        return None
    kind, after = data[start : start + 1], line_end + len(CRLF)
    if kind and kind in BLOBS:
        length = int(data[start + 1 : line_end])
        end = after if length < 0 else after + length + len(CRLF)
        return end if end <= len(data) else None
    if kind and kind in AGGREGATES:
        parts = max(0, int(data[start + 1 : line_end])) * (2 if kind in b"%|" else 1)
        position: int | None = after
        for _ in range(parts):
            position = value_end(data, position) if position is not None else None
        return position
    return after


def _command(request: bytes) -> bytes:
    """The first word, in capitals."""
    if request[:1] != b"*":
        return request.split(None, 1)[0].upper() if request.strip() else b""
    return request.split(CRLF, 3)[2].upper()


class PostgresFraming:
    """Counts the replies after the start of a session. Owner: one connection."""

    def __init__(self) -> None:
        self._requests = bytearray()
        self._replies = bytearray()
        self._plain_answers = 0
        self._is_starting = True  # as the client's messages go: the first ones have no type
        self._is_ready = False  # once the session has started
        self._is_inside = False  # a reply has begun

    def sent(self, data: bytes) -> None:
        """See `Framing.sent`."""
        if not self._is_starting:
            return
        self._requests += data
        while self._is_starting and len(self._requests) >= 8:
            length = int.from_bytes(self._requests[:4], "big")
            if int.from_bytes(self._requests[4:8], "big") in PLAIN_ANSWER_CODES:
                self._plain_answers += 1
                del self._requests[:length]
            else:
                self._is_starting = False

    def answered(self, data: bytes) -> list[Piece]:
        """See `Framing.answered`."""
        pieces = []
        self._replies += data
        while self._plain_answers and self._replies:
            self._plain_answers -= 1
            pieces.append(Piece(data=bytes(self._replies[:1])))
            del self._replies[:1]
        start = 0
        while len(self._replies) >= start + 5:
            end = start + 1 + int.from_bytes(self._replies[start + 1 : start + 5], "big")
            if len(self._replies) < end:
                break
            pieces.append(self._piece(bytes(self._replies[start:end])))
            start = end
        del self._replies[:start]
        return pieces

    def _piece(self, message: bytes) -> Piece:
        kind = message[:1]
        if kind == NOTIFICATION and not self._is_inside:
            return Piece(data=message)
        ends = kind == READY_FOR_QUERY
        self._is_inside = not ends
        counts = self._is_ready
        self._is_ready = self._is_ready or ends
        return Piece(data=message, counts=counts, ends_reply=ends)
