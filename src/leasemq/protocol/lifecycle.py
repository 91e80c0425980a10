"""The table of legal moves. The diagram in the docs is drawn from it, and the suite covers it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from leasemq.protocol.model import State


class Move(StrEnum):
    """What can change a job's state."""

    ENQUEUE = "enqueue"
    PROMOTE = "promote"  # the due time came, or an operator's word
    RESCHEDULE = "reschedule"
    UNBLOCK = "unblock"
    CLAIM = "claim"
    COMPLETE = "complete"
    RETRY = "retry"
    FAIL = "fail"
    RELEASE = "release"
    SNOOZE = "snooze"
    STALL = "stall"
    CANCEL = "cancel"
    EXPIRE = "expire"
    REPLAY = "replay"


@dataclass(frozen=True, slots=True)
class Arrow:
    """One legal move; `source` None is a job that is not stored yet."""

    source: State | None
    move: Move
    target: State


_S, _W, _A, _B = State.SCHEDULED, State.WAITING, State.ACTIVE, State.BLOCKED
_DONE, _FAILED, _CANCELLED, _EXPIRED = State.COMPLETED, State.FAILED, State.CANCELLED, State.EXPIRED

ARROWS: tuple[Arrow, ...] = (
    Arrow(None, Move.ENQUEUE, _W),
    Arrow(None, Move.ENQUEUE, _S),
    Arrow(None, Move.ENQUEUE, _B),
    Arrow(_S, Move.PROMOTE, _W),
    Arrow(_W, Move.RESCHEDULE, _S),
    Arrow(_S, Move.RESCHEDULE, _W),
    Arrow(_B, Move.UNBLOCK, _W),
    Arrow(_B, Move.UNBLOCK, _S),
    Arrow(_W, Move.CLAIM, _A),
    Arrow(_A, Move.COMPLETE, _DONE),
    Arrow(_A, Move.RETRY, _S),
    Arrow(_A, Move.RETRY, _W),
    Arrow(_A, Move.FAIL, _FAILED),
    Arrow(_A, Move.RELEASE, _W),
    Arrow(_A, Move.RELEASE, _S),
    Arrow(_A, Move.SNOOZE, _S),
    Arrow(_A, Move.SNOOZE, _W),
    Arrow(_A, Move.STALL, _W),
    Arrow(_A, Move.STALL, _FAILED),
    Arrow(_A, Move.CANCEL, _CANCELLED),
    Arrow(_W, Move.CANCEL, _CANCELLED),
    Arrow(_S, Move.CANCEL, _CANCELLED),
    Arrow(_B, Move.CANCEL, _CANCELLED),
    Arrow(_W, Move.EXPIRE, _EXPIRED),
    Arrow(_S, Move.EXPIRE, _EXPIRED),
    Arrow(_B, Move.EXPIRE, _EXPIRED),
    Arrow(_W, Move.FAIL, _FAILED),  # a record that cannot be read, met by a claim
    Arrow(_B, Move.FAIL, _FAILED),  # a parent that can never complete
    Arrow(_FAILED, Move.REPLAY, _W),
    Arrow(_EXPIRED, Move.REPLAY, _W),
    Arrow(_CANCELLED, Move.REPLAY, _W),
    Arrow(_FAILED, Move.REPLAY, _B),  # with other parents still open
    Arrow(_EXPIRED, Move.REPLAY, _B),
    Arrow(_CANCELLED, Move.REPLAY, _B),
)

_LEGAL = frozenset((arrow.source, arrow.target) for arrow in ARROWS)


def is_legal(source: State | None, target: State) -> bool:
    """Whether some move leads from `source` to `target`."""
    return (source, target) in _LEGAL


def mermaid() -> str:
    """Draw the table as a Mermaid state diagram."""
    moves: dict[tuple[str, str], list[str]] = {}
    for arrow in ARROWS:
        ends = (arrow.source.value if arrow.source else "[*]", arrow.target.value)
        moves.setdefault(ends, []).append(arrow.move.value)
    lines = [f"    {source} --> {target}: {', '.join(names)}" for (source, target), names in moves.items()]
    return "\n".join(["stateDiagram-v2", *lines]) + "\n"
