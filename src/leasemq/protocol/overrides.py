"""What one enqueue changes about its task's policy, stored with the job as small JSON.

The backend carries the bytes unread; the worker that runs the job reads them. A job without
overrides has no bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from leasemq.errors import CorruptRecord
from leasemq.protocol.envelope import decode_plain, encode_plain, place_of
from leasemq.protocol.retry import Retry, from_plain, to_plain

LIMIT_BYTES = 64 * 1024  # a retry policy with a thousand delays takes 12 KiB
_FIELDS = frozenset({"retry", "timeout_ms", "lease_ms"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Overrides:
    """The policy fields that a job carries itself; None: the task's own value holds."""

    retry: Retry | None = None
    timeout_ms: int | None = None
    lease_ms: int | None = None


NO_OVERRIDES = Overrides()


def encode_overrides(overrides: Overrides) -> bytes:
    """Answer the bytes for `NewJob.overrides`; empty if nothing is overridden.

    Raises: InvalidSetting for a retry policy with rules by exception class.
    """
    plain: dict[str, object] = {}
    if overrides.retry is not None:
        plain["retry"] = to_plain(overrides.retry)
    if overrides.timeout_ms is not None:
        plain["timeout_ms"] = overrides.timeout_ms
    if overrides.lease_ms is not None:
        plain["lease_ms"] = overrides.lease_ms
    return encode_plain(plain, LIMIT_BYTES, what="overrides") if plain else b""


def decode_overrides(stored: bytes, *, job: str = "") -> Overrides:
    """Answer what `encode_overrides` was given; no bytes mean no overrides.

    Raises: UnknownEnvelope (a newer version), CorruptRecord.
    """
    if not stored:
        return NO_OVERRIDES
    plain = decode_plain(stored, what="overrides", job=job)
    if not isinstance(plain, dict) or not plain.keys() <= _FIELDS:
        raise CorruptRecord(f"{place_of('overrides', job)} have fields that this version never wrote")
    retry = plain.get("retry")
    return Overrides(
        retry=None if retry is None else from_plain(retry),
        timeout_ms=_duration_ms(plain, "timeout_ms", job),
        lease_ms=_duration_ms(plain, "lease_ms", job),
    )


def _duration_ms(plain: dict[str, Any], field: str, job: str) -> int | None:
    value = plain.get(field)
    if value is None or (type(value) is int and value > 0):
        return value
    raise CorruptRecord(f"{place_of('overrides', job)} have {field}={value!r}, which is no duration")
