"""One stored job as bytes, taken apart: the same formats as lua/shared/records.lua."""

from __future__ import annotations

from struct import Struct
from typing import NamedTuple

from leasemq.backends.redis.layout import RARE, STATES, UNREADABLE, VERSION, long, u48
from leasemq.protocol.model import FENCE_LIMIT, Keep, State

HEAD_BYTES = 56
_RUN_BYTES = 92
# As HEAD of records.lua: what has five, six or seven bytes there is two or three numbers here.
_HEAD = Struct(">5B HI HI BHI HI BI HI HI IH BH")
_RARE_BYTES = 28
_TERMS_BYTES = 22
_LENGTHS = 6  # texts in a rare block


class Head(NamedTuple):
    """What every record begins with."""

    state: State
    flags: int
    marks: int
    priority: int
    place: int
    due_ms: int
    expires_ms: int
    created_ms: int
    born: int
    generation: int
    terms: int
    payload_bytes: int


class Rare(NamedTuple):
    """What few jobs have; 0 and empty stand for none."""

    request: int
    ttl: int
    trail: int
    window: int
    mode: int
    ends: int
    creator_generation: int
    key: bytes = b""
    creator_queue: bytes = b""
    creator_id: bytes = b""
    terms: bytes = b""
    overrides: bytes = b""
    headers: bytes = b""


class Terms(NamedTuple):
    """What most jobs of a task have in common."""

    max_stalls: int
    keep: Keep
    task: str


class Run(NamedTuple):
    """What exists from the first claim on: counters, fence, newest attempt, end, result."""

    fence: int
    attempts: int
    failures: int
    stalls: int
    replays: int
    lease_until_ms: int
    renewed_ms: int
    claimed_ms: int
    outcome: int
    bits: int
    attempt_ended_ms: int
    ended_ms: int
    keep_until_ms: int
    result_until_ms: int
    nonce: str = ""
    incarnation: str = ""
    worker: str = ""
    result: bytes | None = None


PLAIN = Rare(0, 0, 0, 0, 0, 0, 0)
NEVER_CLAIMED = Run(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)


def head_of(raw: bytes) -> Head:
    """Answer the head of a record. Raises: ValueError."""
    if len(raw) < HEAD_BYTES:
        raise ValueError(f"the record has {len(raw)} bytes")
    if raw[0] != VERSION or not 1 <= raw[1] <= len(STATES):
        raise ValueError(f"its version is {raw[0]}, its state {raw[1]}")
    if raw[2] & UNREADABLE:
        raise ValueError("it was ended because its record could not be read")
    (
        _, state, flags, marks, priority, place_top, place, _, _, due_top, due_middle, due,
        expires_top, expires, _, _, created_top, created, born_top, born, generation, terms, size_top, size,
    ) = _HEAD.unpack_from(raw)  # fmt: skip
    return Head(
        STATES[state - 1],
        flags,
        marks,
        priority,
        place_top << 32 | place,
        due_top << 48 | due_middle << 32 | due,
        expires_top << 32 | expires,
        created_top << 32 | created,
        born_top << 32 | born,
        generation,
        terms,
        size_top << 16 | size,
    )


def body_of(raw: bytes, head: Head) -> tuple[bytes, Rare]:
    """Answer the payload and the rare values. Raises: ValueError."""
    end = HEAD_BYTES + head.payload_bytes
    if not head.marks & RARE:
        if len(raw) != end:
            raise ValueError(f"the record has {len(raw)} bytes instead of {end}")
        return raw[HEAD_BYTES:], PLAIN
    if len(raw) < end + _RARE_BYTES:
        raise ValueError(f"the record has {len(raw)} bytes, its payload alone would need {end}")
    return raw[HEAD_BYTES:end], _rare_of(raw, end)


def _rare_of(raw: bytes, at: int) -> Rare:
    number = int.from_bytes
    texts: list[bytes] = []
    place = at + _RARE_BYTES
    for _ in range(_LENGTHS):
        size = number(raw[place : place + 4])
        texts.append(raw[place + 4 : place + 4 + size])
        place += 4 + size
    if place != len(raw):
        raise ValueError(f"the record has {len(raw)} bytes instead of {place}")
    return Rare(
        number(raw[at : at + 8]),
        u48(raw, at + 8),
        number(raw[at + 14 : at + 16]),
        u48(raw, at + 16),
        raw[at + 22],
        raw[at + 23],
        number(raw[at + 24 : at + 28]),
        *texts,
    )


def terms_of(blob: bytes | None) -> Terms:
    """Answer terms. Raises: ValueError."""
    if blob is None or len(blob) < _TERMS_BYTES:
        raise ValueError("its task and retention are gone")
    keep = Keep(result_ms=u48(blob, 4), record_ms=u48(blob, 10), dead_ms=u48(blob, 16))
    return Terms(int.from_bytes(blob[:4]), keep, blob[_TERMS_BYTES:].decode())


def run_of(raw: bytes) -> Run:
    """Answer a run. Raises: ValueError."""
    if len(raw) < _RUN_BYTES or raw[0] != VERSION:
        raise ValueError(f"what was stored of its attempts has {len(raw)} bytes")
    number = int.from_bytes
    nonce_end = _RUN_BYTES + raw[83]
    incarnation_end = nonce_end + number(raw[84:86])
    worker_end = incarnation_end + number(raw[86:88])
    end = worker_end + number(raw[88:92])
    if len(raw) != end:
        raise ValueError(f"what was stored of its attempts has {len(raw)} bytes instead of {end}")
    if (fence := number(raw[1:8])) > FENCE_LIMIT:
        raise ValueError(f"its fence is {fence}")
    return Run(
        fence,
        number(raw[8:12]),
        number(raw[12:16]),
        number(raw[16:20]),
        number(raw[20:24]),
        u48(raw, 24),
        u48(raw, 30),
        u48(raw, 42),
        raw[48],
        raw[49],
        u48(raw, 50),
        u48(raw, 64),
        u48(raw, 70),
        u48(raw, 76),
        long(raw[_RUN_BYTES:nonce_end]),
        long(raw[nonce_end:incarnation_end]),
        raw[incarnation_end:worker_end].decode(),
        raw[worker_end:] if raw[82] else None,
    )
