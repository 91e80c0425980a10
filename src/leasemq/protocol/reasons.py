"""One reason why a job does not run, or ran more than once: its kind, a plain sentence, and what to do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from leasemq.errors import CorruptRecord, UnknownEnvelope
from leasemq.protocol.failure import decode_error
from leasemq.protocol.model import Ref
from leasemq.protocol.names import shown
from leasemq.protocol.times import iso_utc

_MESSAGE_CHARACTERS = 200
_SPANS = ((48 * 3_600_000, 86_400_000, "days"), (120 * 60_000, 3_600_000, "h"), (120_000, 60_000, "min"))

Plain = str | int | float | bool | None | Sequence[str] | Mapping[str, str]


class Why(StrEnum):
    """What keeps a job from running, where it stands, or what made it run again."""

    # the id
    UNKNOWN = "unknown"
    REPLACED = "replaced"  # the id is at a newer generation
    MERGED = "merged"  # what was enqueued became part of another job
    SKIPPED = "skipped"  # the unique key was held
    # not yet
    NOT_DUE = "not_due"
    BACK_OFF = "back_off"
    SNOOZED = "snoozed"
    GIVEN_BACK = "given_back"
    BLOCKED = "blocked"
    PAUSED = "paused"
    TTL_OVER = "ttl_over"
    TTL_FIRST = "ttl_first"  # its time to live ends before it is due
    DUE = "due"  # a sweep makes it waiting
    # waiting
    NO_WORKER = "no_worker"
    NO_TASK = "no_task"
    SUSPECT = "suspect"
    MAKING_WAY = "making_way"  # the workers that there are run empty for a suspect, or run one alone
    LIMIT = "limit"  # a limit of its queue or key is reached
    NO_SLOT = "no_slot"
    BEHIND = "behind"  # others come first
    NEXT = "next"
    # active
    LEASED = "leased"
    LAPSED = "lapsed"
    CANCELLING = "cancelling"
    # over
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    EXPIRED = "expired"
    # it ran, or runs, more than once
    AFTER_STALL = "after_stall"
    AFTER_FAILURE = "after_failure"
    AFTER_RELEASE = "after_release"
    AFTER_SNOOZE = "after_snooze"
    AFTER_REPLAY = "after_replay"
    WRITES_REFUSED = "writes_refused"

    @property
    def is_about_reruns(self) -> bool:
        """Whether it says why the job ran more than once, not how it stands."""
        return self in _ABOUT_RERUNS


_ABOUT_RERUNS = frozenset(
    {
        *(Why.AFTER_STALL, Why.AFTER_FAILURE, Why.AFTER_RELEASE, Why.AFTER_SNOOZE),
        *(Why.AFTER_REPLAY, Why.WRITES_REFUSED),
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """One reason. `values`: what the sentence tells, as plain data; instants in ISO 8601, spans in s."""

    kind: Why
    says: str
    remedy: str = ""  # what to do about it; empty: nothing
    values: Mapping[str, Plain] = field(default_factory=dict)


def span(duration_ms: int) -> str:
    """Answer a duration as people say it: `850 ms`, `12.3 s`, `35 min`, `5.2 h`, `12 days`."""
    if duration_ms < 1_000:
        return f"{max(0, duration_ms)} ms"
    for least_ms, unit_ms, unit in _SPANS:
        if duration_ms >= least_ms:
            return f"{_rounded(duration_ms / unit_ms)} {unit}"
    return f"{_rounded(duration_ms / 1_000)} s"


def _rounded(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{round(value, 1):g}"


def at(instant_ms: int, now_ms: int) -> str:
    """Answer an instant with how far it is from now."""
    ago = now_ms - instant_ms
    return (
        f"{iso_utc(instant_ms)} ({span(ago)} ago)" if ago >= 0 else f"{iso_utc(instant_ms)} (in {span(-ago)})"
    )


def named(ref: Ref) -> str:
    """Answer how a job is called in a sentence."""
    return f"{shown(ref.queue)}/{shown(ref.id)}"


def many(number: int, one: str, several: str | None = None) -> str:
    """Answer a number with its noun."""
    return f"{number:,} {one if number == 1 else several or one + 's'}"


def error_told(stored: bytes | None, job_id: str) -> tuple[str, dict[str, Plain]]:
    """Answer a recorded error for a sentence, and as values; nothing for none."""
    if stored is None:
        return "", {}
    try:
        error = decode_error(stored, job=job_id)
    except (CorruptRecord, UnknownEnvelope):
        return ": an error that cannot be read", {"error": None}
    message = shown(error.message, _MESSAGE_CHARACTERS)
    told = f": {shown(error.type)}" + (f": {message}" if message else "")
    return told, {"error_type": error.type, "error_message": error.message}
