"""One stored job as bytes, taken apart: the same formats as lua/shared/records.lua."""

from __future__ import annotations

from struct import Struct
from typing import NamedTuple

from leasemq.backends.redis.layout import PLAIN, RARE, RUNS, STATES, UNREADABLE, VERSION, long, u48
from leasemq.protocol.model import FENCE_LIMIT, Keep, State

HEAD_BYTES = 56
_RUN_BYTES = 92
# As HEAD of records.lua: what has five, six or seven bytes there is two or three numbers here.
_HEAD = Struct(">5B HI HI BHI HI BI HI HI IH BH")
PLAIN_BYTES = 37
_PLAIN = Struct(">3B HI HI BI HI HI H BH")
_DAMAGED = 128  # no release gets so far
_PLAIN_MORE = 19  # bytes that the run of a plain job has more
_PLAIN_PARTS = Struct(">HI 6x H")
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
    bytes: int = HEAD_BYTES  # its own


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


NOTHING_RARE = Rare(0, 0, 0, 0, 0, 0, 0)
_PLAIN_MARK, _LONG_MARK = bytes((PLAIN,)), bytes((VERSION,))
_PLAIN_STATES = (State.WAITING, State.ACTIVE, State.COMPLETED)
NEVER_CLAIMED = Run(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)


def head_of(raw: bytes, run_raw: bytes) -> Head:
    """Answer the head of a record; a plain one's run says how far it is. Raises: ValueError."""
    if raw[:1] == _PLAIN_MARK and len(raw) >= PLAIN_BYTES:
        return _plain_head_of(raw, run_raw)
    if raw and PLAIN < raw[0] < _DAMAGED:
        raise ValueError(f"its layout is {raw[0]}, of a newer release: upgrade this one")
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


def _plain_head_of(raw: bytes, run_raw: bytes) -> Head:
    (
        _, state, priority, place_top, place, _, _, _, _, created_top, created, born_top, born, terms,
        size_top, size,
    ) = _PLAIN.unpack_from(raw)  # fmt: skip
    if run_raw:
        if len(run_raw) <= _RUN_BYTES + _PLAIN_MORE or run_raw[0] != PLAIN:
            raise ValueError(f"what was stored of its attempts has {len(run_raw)} bytes")
        state, place_top, place = run_raw[1], 0, u48(run_raw, 2)
    if not 1 <= state <= len(STATES) or STATES[state - 1] not in _PLAIN_STATES:
        raise ValueError(f"its short head has the state {state}")
    created_ms = created_top << 32 | created
    return Head(
        state=STATES[state - 1],
        flags=RUNS if run_raw else 0,
        marks=0,
        priority=priority,
        place=place_top << 32 | place,
        due_ms=created_ms,
        expires_ms=0,
        created_ms=created_ms,
        born=born_top << 32 | born,
        generation=1,
        terms=terms,
        payload_bytes=size_top << 16 | size,
        bytes=PLAIN_BYTES,
    )


def plain_parts_of(raw: bytes) -> tuple[int, int]:
    """Answer when a plain job was created, and the number of its terms: what a claim needs of its head."""
    created_top, created, terms = _PLAIN_PARTS.unpack_from(raw, 20)
    return created_top << 32 | created, terms


def body_of(raw: bytes, head: Head) -> tuple[bytes, Rare]:
    """Answer the payload and the rare values. Raises: ValueError."""
    end = head.bytes + head.payload_bytes
    if not head.marks & RARE:
        if len(raw) != end:
            raise ValueError(f"the record has {len(raw)} bytes instead of {end}")
        return raw[head.bytes :], NOTHING_RARE
    if len(raw) < end + _RARE_BYTES:
        raise ValueError(f"the record has {len(raw)} bytes, its payload alone would need {end}")
    return raw[head.bytes : end], _rare_of(raw, end)


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
    if raw[:1] == _PLAIN_MARK:
        raw = _LONG_MARK + raw[_PLAIN_MORE + 1 :]
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
