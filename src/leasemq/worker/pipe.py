"""What a worker and its child processes say to each other, and how it is cut into frames.

A frame is its length in four bytes and one message in MessagePack. Arguments, results and errors go
through as the bytes that are stored; nothing here can name code that the worker has not registered.
"""

from __future__ import annotations

import socket
from typing import Any

import msgspec

from leasemq.context import RunningAttempt
from leasemq.protocol.decide import Happened, Hopeless, Raised, Reason, Returned, Snoozed, Unfit
from leasemq.protocol.model import Lease, NewJob, NoteKind

_HEAD_BYTES = 4
_AT_ONCE_BYTES = 64 * 1024


class Spot(msgspec.Struct, array_like=True, frozen=True):
    """Where a function or class of the worker's program is found again: a module, a path in it."""

    module: str
    path: str


class Script(msgspec.Struct, array_like=True, frozen=True):
    """The program that runs as `__main__`: its file, and the package it belongs to."""

    file: str
    package: str | None


class Learn(msgspec.Struct, array_like=True, tag="learn", frozen=True):
    """To the child: one registered function with the part of its policy that the child applies."""

    name: str
    function: Spot
    script: Script | None
    is_async: bool
    takes_context: bool
    result_limit_bytes: int
    memory_limit_bytes: int | None
    retries: bool
    retry_on: list[Spot] | None
    give_up_on: list[Spot]
    raises: list[Spot]


class Run(msgspec.Struct, array_like=True, tag="run", frozen=True):
    """To the child: one attempt. Its lease comes along if the function looks at it."""

    name: str
    running: RunningAttempt
    payload: bytes  # empty if the lease, which has it, comes along
    headers: bytes
    has_own_retry: bool  # the job's own policy, which has no rules by exception class, is in force
    lease: Lease | None


class NoteAnswer(msgspec.Struct, array_like=True, tag="noted", frozen=True):
    """To the child: its note is stored, or why it is not."""

    error: str | None  # the name of the error's class
    text: str


class Learned(msgspec.Struct, array_like=True, tag="learned", frozen=True):
    """From the child: it has the function, or the stored form of why not."""

    error: bytes | None


class NoteAsked(msgspec.Struct, array_like=True, tag="note", frozen=True):
    """From the child: something to record under the attempt's fence."""

    kind: NoteKind
    value: bytes
    queue: str
    child: NewJob | None


class Ended(msgspec.Struct, array_like=True, tag="ended", frozen=True):
    """From the child: what happened to the attempt, as one flat record."""

    what: str
    stored: bytes = b""
    delay_ms: int | None = None
    retryable: bool = False
    reason: str = ""
    is_worn: bool = False  # the child should serve no other attempt


ToChild = Learn | Run | NoteAnswer
FromChild = Learned | NoteAsked | Ended

_encoder = msgspec.msgpack.Encoder()


def framed(said: ToChild | FromChild) -> bytes:
    """Answer a message as one frame."""
    body = _encoder.encode(said)
    return len(body).to_bytes(_HEAD_BYTES, "big") + body


class Frames:
    """Reads one direction of a socket in whole messages. Owner: the end that reads.

    It reads into a buffer of its own: to allocate and shrink one for each message would cost as much as
    all the rest of a job.
    """

    def __init__(self, end: socket.socket, kinds: Any) -> None:
        self._end = end
        self._decode = msgspec.msgpack.Decoder(kinds).decode
        self._chunk = bytearray(_AT_ONCE_BYTES)
        self._view = memoryview(self._chunk)
        self._rest = bytearray()

    def read(self) -> list[Any] | None:
        """Read once, and answer the messages that are complete by now; None at the end of the stream.

        Raises: OSError as `recv` does, BlockingIOError included; msgspec.MsgspecError.
        """
        count = self._end.recv_into(self._chunk)
        if not count:
            return None
        if not self._rest and count - _HEAD_BYTES == int.from_bytes(self._view[:_HEAD_BYTES], "big"):
            return [self._decode(self._view[_HEAD_BYTES:count])]
        rest = self._rest
        rest += self._view[:count]
        messages = []
        while len(rest) >= _HEAD_BYTES:
            end = _HEAD_BYTES + int.from_bytes(rest[:_HEAD_BYTES], "big")
            if len(rest) < end:
                break
            messages.append(self._decode(bytes(rest[_HEAD_BYTES:end])))
            del rest[:end]
        return messages


def ended(happened: Happened, *, is_worn: bool = False) -> Ended:
    """Answer what happened as the child tells it."""
    match happened:
        case Returned(result=result):
            return Ended("returned", result, is_worn=is_worn)
        case Raised():
            return Ended(
                "raised", happened.error, happened.after_ms, happened.retryable, happened.reason, is_worn
            )
        case Hopeless(error=error, reason=reason):
            return Ended("hopeless", error, reason=reason, is_worn=is_worn)
        case Snoozed(delay_ms=delay_ms):
            return Ended("snoozed", delay_ms=delay_ms, is_worn=is_worn)
        case Unfit():
            return Ended("unfit", is_worn=is_worn)
        case _:
            raise AssertionError(f"no child ends an attempt so: {happened!r}")


def happened_of(told: Ended) -> Happened:
    """Answer what `ended` was given. Raises: ValueError for what no child says."""
    match told.what:
        case "returned":
            return Returned(result=told.stored)
        case "raised":
            return Raised(
                error=told.stored,
                retryable=told.retryable,
                after_ms=told.delay_ms,
                reason=Reason(told.reason),
            )
        case "hopeless":
            return Hopeless(error=told.stored, reason=Reason(told.reason))
        case "snoozed":
            return Snoozed(delay_ms=told.delay_ms or 0)
        case "unfit":
            return Unfit()
        case _:
            raise ValueError(f"a child ended an attempt with {told.what!r}")
