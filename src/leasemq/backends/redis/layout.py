"""How values lie in Redis: the same formats as lua/shared/records.lua, numbers for words, short names.

Formats are big-endian and their numbers have no sign. An instant of 0 stands for none.
"""

from __future__ import annotations

import re
from enum import StrEnum
from struct import Struct
from typing import Final, TypeVar

from leasemq.protocol.insight import EventKind
from leasemq.protocol.model import (
    NoteKind,
    OnParentFailure,
    Outcome,
    Ref,
    State,
    UniqueMode,
    UniqueUntil,
)

VERSION: Final = 1
PLAIN: Final = 2  # the version of a short head: see lua/shared/plain.lua
PLAIN_PAYLOAD_BYTES: Final = 65_535  # of jobs with a short head
PLAIN_ID_LENGTH: Final = 63  # in characters, which have four bytes at most
STATES: Final = (
    State.SCHEDULED, State.WAITING, State.ACTIVE, State.BLOCKED,
    State.COMPLETED, State.FAILED, State.CANCELLED, State.EXPIRED,
)  # fmt: skip
EVENTS: Final = (
    EventKind.ENQUEUED, EventKind.PROMOTED, EventKind.RESCHEDULED, EventKind.CLAIMED, EventKind.COMPLETED,
    EventKind.RETRIED, EventKind.FAILED, EventKind.RELEASED, EventKind.SNOOZED, EventKind.STALLED,
    EventKind.CANCEL_REQUESTED, EventKind.CANCELLED, EventKind.EXPIRED, EventKind.UNBLOCKED,
    EventKind.PROGRESS, EventKind.REPLACED, EventKind.REPLAYED, EventKind.REMOVED, NoteKind.LOG,
)  # fmt: skip
OUTCOMES: Final = (
    Outcome.COMPLETED, Outcome.RETRIED, Outcome.FAILED, Outcome.RELEASED,
    Outcome.SNOOZED, Outcome.CANCELLED, Outcome.STALLED,
)  # fmt: skip
MODES: Final = (UniqueMode.SKIP, UniqueMode.REPLACE, UniqueMode.DEBOUNCE, UniqueMode.THROTTLE)
ENDS: Final = (UniqueUntil.START, UniqueUntil.END)
POLICIES: Final = (OnParentFailure.FAIL, OnParentFailure.IGNORE, OnParentFailure.KEEP)
NOTES: Final = (NoteKind.PROGRESS, NoteKind.LOG, NoteKind.CHECKPOINT, NoteKind.OFFER)

PRIORITY_ZERO: Final = 100  # priorities lie as numbers from 0 to 200
# Flags of a head
SUSPECT, CANCEL, RUNS, EXTRA, PARENTS, DEPENDANTS, UNREADABLE, REPLAYS = 1, 2, 4, 8, 16, 32, 64, 128
# Marks of a head
RARE, UNIQUE, TRAIL = 1, 2, 4
# Bits of an attempt
AFTER_REPLAY, WITH_ERROR = 1, 2

_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_HEX = re.compile(r"[0-9a-f]{32}")
_Word = TypeVar("_Word", bound=StrEnum)
_NAME = Struct(">H")
_GENERATION = Struct(">I")


def numbers(words: tuple[_Word, ...]) -> dict[_Word, int]:
    """Answer the number of each word, from 1 on."""
    return {word: number for number, word in enumerate(words, start=1)}


def short(name: str) -> bytes:
    """Answer a job id, nonce or incarnation as it is stored: a UUID, and 32 hex digits, in 17 bytes.

    No name of a job begins with a control character, so none is taken for another.
    """
    if len(name) == 36 and _UUID.fullmatch(name):
        return b"\x00" + bytes.fromhex(name.replace("-", ""))
    if len(name) == 32 and _HEX.fullmatch(name):
        return b"\x01" + bytes.fromhex(name)
    return name.encode(errors="surrogatepass")  # what no name can have is the name of no job


def long(stored: bytes) -> str:
    """Answer the name that `short` made this of. Raises: ValueError."""
    if len(stored) == 17 and stored[0] <= 1:
        digits = stored[1:].hex()
        if stored[0] == 1:
            return digits
        return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"
    return stored.decode()


def u48(stored: bytes, at: int) -> int:
    """Answer the six-byte number at a place."""
    return int.from_bytes(stored[at : at + 6])


def ref_name(ref: Ref, here: str) -> bytes:
    """Answer a life of an id as scripts name it; of the queue `here` the name is left out."""
    queue, id_ = b"" if ref.queue == here else ref.queue.encode(), short(ref.id)
    return b"".join(
        (_NAME.pack(len(queue)), queue, _NAME.pack(len(id_)), id_, _GENERATION.pack(ref.generation))
    )


def ref_of(stored: bytes, here: str) -> Ref:
    """Answer the life that `ref_name` named. Raises: ValueError."""
    size = int.from_bytes(stored[:2])
    queue = stored[2 : 2 + size].decode() if size else here
    id_size = int.from_bytes(stored[2 + size : 4 + size])
    at = 4 + size + id_size
    if len(stored) != at + 4:
        raise ValueError(f"a stored name has {len(stored)} bytes instead of {at + 4}")
    return Ref(queue=queue, id=long(stored[4 + size : at]), generation=int.from_bytes(stored[at:]))
