"""What a raised exception becomes: a bounded record of text that holds nothing of the program alive.

The exception is never stored or pickled; its type is a name to read, not one to look up. Of one that its
task declares, `declared.py` adds the values.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import msgspec

from leasemq.protocol.envelope import (
    ENVELOPE_VERSION,
    ArgumentsEnvelope,
    ErrorEnvelope,
    open_envelope,
    sealed,
)
from leasemq.protocol.names import MASK, mask_urls

MAX_ERROR_BYTES = 64 * 1024
MAX_FRAMES = 64  # per exception of a chain, the newest; what lies further out is named by a line
_TYPE_BYTES = 512
_MESSAGE_BYTES = 16 * 1024
_TRACEBACK_BYTES = 46 * 1024  # together with keys and quotes under MAX_ERROR_BYTES
_CHARACTERS_AHEAD = 4 * MAX_ERROR_BYTES  # no more of a text is encoded to find out where to cut it

_arguments = msgspec.json.Decoder(ArgumentsEnvelope).decode


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorRecord:
    """An exception as text: qualified type name (builtins bare), message, traceback without locals."""

    type: str
    message: str
    traceback: str = ""
    declared: str = ""  # the class among those the task declares whose values are stored
    values: bytes = b""  # what makes it again, as arguments are stored


def describe_exception(
    error: BaseException, hide: Iterable[str] = (), *, spare_bytes: int = 0
) -> ErrorRecord:
    """Answer the exception as a record whose encoding takes at most 64 KiB, less `spare_bytes`.

    Survives exceptions whose `str()` raises, groups, and cycles of causes. Each text in `hide` (see
    `Signature.secret_texts`) is masked wherever it occurs, and so are passwords in URLs.
    """
    secrets = sorted(_spellings(hide), key=len, reverse=True)
    name = _safely(lambda: qualified_name(type(error)), "an exception type without a name")
    message = _safely(lambda: str(error), "str() of the exception failed")
    trace = _safely(lambda: _trace(error), "the traceback could not be formatted")
    return ErrorRecord(
        type=_head(_masked(name, secrets), _TYPE_BYTES),
        message=_head(_masked(message, secrets), _MESSAGE_BYTES),
        traceback=_ends(_masked(trace, secrets), _TRACEBACK_BYTES - spare_bytes),
    )


def encode_error(record: ErrorRecord) -> bytes:
    """Answer the record's bytes."""
    return sealed(
        ErrorEnvelope(
            v=ENVELOPE_VERSION,
            type=record.type,
            message=record.message,
            traceback=record.traceback,
            declared=record.declared,
            values=_arguments(record.values) if record.values else None,
        )
    )


def decode_error(payload: bytes, *, job: str = "") -> ErrorRecord:
    """Answer the record that `encode_error` gave. Raises: UnknownEnvelope (newer version), CorruptRecord."""
    envelope = open_envelope(ErrorEnvelope, payload, what="error", job=job)
    return ErrorRecord(
        type=envelope.type,
        message=envelope.message,
        traceback=envelope.traceback,
        declared=envelope.declared,
        values=b"" if envelope.values is None else sealed(envelope.values),
    )


def _safely(answer: Callable[[], str], otherwise: str) -> str:
    """Answer the text, made encodable; user code runs inside, and may raise what it likes."""
    try:
        text = answer()
        return text.encode("utf-8", "backslashreplace").decode()
    except BaseException:  # the handler's own exception is being described: nothing it does may get out
        return f"<{otherwise}>"


def qualified_name(kind: type) -> str:
    """Answer the class as errors name it: builtins bare, others with their module."""
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def _trace(error: BaseException) -> str:
    formatted = traceback.TracebackException(
        type(error), error, error.__traceback__, limit=-MAX_FRAMES, capture_locals=False, compact=True
    )
    frames = sum(1 for _ in traceback.walk_tb(error.__traceback__))
    outer = f"[{frames - MAX_FRAMES} outer frames left out]\n" if frames > MAX_FRAMES else ""
    return outer + "".join(formatted.format())


def _spellings(secrets: Iterable[str]) -> set[str]:
    """Answer each secret as it stands, and as `repr` writes it inside a message."""
    spelled = set()
    for secret in secrets:
        spelled |= {secret.encode("utf-8", "backslashreplace").decode(), repr(secret)[1:-1]}
    return spelled - {""}


def _masked(text: str, secrets: Iterable[str]) -> str:
    for secret in secrets:
        text = text.replace(secret, MASK)
    return mask_urls(text)


def _encoded_bytes(text: str) -> int:
    return len(msgspec.json.encode(text))  # escapes make it longer than the text


def _fitting(text: str, limit_bytes: int, *, tail: bool = False) -> str:
    """Answer the longest simple cut of the text (its end, if `tail`) whose encoding fits."""
    kept = text[-_CHARACTERS_AHEAD:] if tail else text[:_CHARACTERS_AHEAD]
    while (size_bytes := _encoded_bytes(kept)) > limit_bytes:
        length = min(len(kept) - 1, len(kept) * limit_bytes // size_bytes)
        kept = kept[len(kept) - length :] if tail else kept[:length]
    return kept


def _head(text: str, limit_bytes: int) -> str:
    kept = _fitting(text, limit_bytes)
    return kept if len(kept) == len(text) else f"{kept} […{len(text) - len(kept)} characters cut]"


def _ends(text: str, limit_bytes: int) -> str:
    """Answer the text without its middle: what raised is at the end, what it was about at the start."""
    if _fitting(text, limit_bytes) == text:
        return text
    start = _fitting(text, limit_bytes // 4)
    end = _fitting(text, limit_bytes - limit_bytes // 4, tail=True)
    return f"{start}\n[…{len(text) - len(start) - len(end)} characters cut]\n{end}"
