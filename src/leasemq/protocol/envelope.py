"""The bytes of arguments, results, errors and other stored values: JSON text with a version.

Every stored value is a JSON object (RFC 8259, UTF-8) whose `v` is its version. The version names the
whole form, its encoding included: a later form that this release cannot read is recognised by `v`
alone. Bytes are opened here without knowing any function; `signature.py` gives them types.

Where JSON repeats a key the last one counts, for every reader alike; nothing written here repeats one.
"""

from __future__ import annotations

import re
from typing import Any, TypeVar

import msgspec

from leasemq.errors import CorruptRecord, PayloadRejected, PayloadTooLarge, UnknownEnvelope
from leasemq.protocol.names import MASK, shown
from leasemq.protocol.plain import INT_MAX, INT_MIN, MAX_NESTING, plain_fault

ENVELOPE_VERSION = 1
DEFAULT_LIMIT_BYTES = 1024 * 1024
HARD_LIMIT_BYTES = 16 * 1024 * 1024  # nothing longer is ever decoded
_ENVELOPE_NESTING = 2  # the object, and the list or map of arguments in it

_TEXT = re.compile(rb'"(?:[^"\\]++|\\.?)*+"?', re.DOTALL)  # possessive: linear on any bytes
_MAYBE_LONG_INT = re.compile(rb"\d{19}")
_LONG_INT = re.compile(rb"(?<![\d.eE+\-])-?\d{19,}+(?![.eE])")
_BRACKETS = bytes.maketrans(b"{}", b"[]")
_NOT_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))


class ArgumentsEnvelope(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True, gc=False
):
    """Arguments, canonical: by name where a name will do, defaults left out. `secret`: places to mask."""

    v: int
    schema: str
    args: list[msgspec.Raw] = []
    kwargs: dict[str, msgspec.Raw] = {}
    secret: list[int | str] = []


class ResultEnvelope(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True, gc=False
):
    """What a handler returned."""

    v: int
    schema: str
    value: msgspec.Raw
    secret: bool = False


class ErrorEnvelope(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True, gc=False
):
    """What a handler raised. `declared` and `values`: of an error that its task declares."""

    v: int
    type: str
    message: str
    traceback: str
    declared: str = ""
    values: ArgumentsEnvelope | None = None


class PlainEnvelope(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """A value without a declared type: a checkpoint, progress, overrides."""

    v: int
    plain: Any


class _Version(msgspec.Struct):
    v: int


_Envelope = TypeVar("_Envelope", ArgumentsEnvelope, ResultEnvelope, ErrorEnvelope, PlainEnvelope)
_encoder = msgspec.json.Encoder()
_anything = msgspec.json.Decoder()
_version = msgspec.json.Decoder(_Version)
_decoders: dict[type[msgspec.Struct], msgspec.json.Decoder[Any]] = {
    kind: msgspec.json.Decoder(kind)
    for kind in (ArgumentsEnvelope, ResultEnvelope, ErrorEnvelope, PlainEnvelope)
}


def sealed(envelope: msgspec.Struct) -> bytes:
    """Answer the envelope's bytes."""
    return _encoder.encode(envelope)


def open_envelope(kind: type[_Envelope], payload: bytes, *, what: str, job: str = "") -> _Envelope:
    """Answer the envelope in the bytes; the values inside stay raw.

    Bounded in time and memory on any bytes. `what` and `job` only name the place in the message.

    Raises: UnknownEnvelope for a newer version, CorruptRecord for anything else.
    """
    fault = json_fault(payload)
    if fault is None:
        try:
            envelope: _Envelope = _decoders[kind].decode(payload)
            if envelope.v == ENVELOPE_VERSION:
                return envelope
            fault = f"it has version {envelope.v}"
        except (msgspec.DecodeError, RecursionError) as error:
            fault = str(error)
    _check_version(payload, what, job)
    raise CorruptRecord(f"{place_of(what, job)} cannot be read: {fault}; {len(payload)} bytes")


def place_of(what: str, job: str) -> str:
    """Answer how a message names a stored value."""
    return f"the stored {what} of job {shown(job)}" if job else f"the stored {what}"


def json_fault(payload: bytes, nesting: int = MAX_NESTING + _ENVELOPE_NESTING) -> str | None:
    """Answer why the bytes are not decoded: size, depth, or an int beyond 64 bits.

    What is malformed is left to the decoder. Linear in the size, on any bytes.
    """
    if len(payload) > HARD_LIMIT_BYTES:
        return f"it is longer than {HARD_LIMIT_BYTES} bytes"
    is_shallow = payload.count(b"[") + payload.count(b"{") <= nesting
    if is_shallow and not _MAYBE_LONG_INT.search(payload):
        return None
    bare = _TEXT.sub(b"", payload)
    if not is_shallow and _is_deeper(bare, nesting):
        return f"it is nested more than {MAX_NESTING} deep"
    for found in _LONG_INT.finditer(bare):
        digits = found.group()
        if len(digits) > 20 or not INT_MIN <= int(digits) <= INT_MAX:
            return "it has an int beyond 64 bits"
    return None


def describe(payload: bytes, *, job: str = "") -> dict[str, Any]:
    """Answer stored arguments as plain data for display, secrets masked: schema, args, kwargs.

    Needs no function: which values are secret is stored with them.

    Raises: UnknownEnvelope, CorruptRecord.
    """
    envelope = open_envelope(ArgumentsEnvelope, payload, what="arguments", job=job)
    secret = set(envelope.secret)
    read = _PlainReader("arguments", job)
    return {
        "schema": envelope.schema,
        "args": [MASK if i in secret else read(raw) for i, raw in enumerate(envelope.args)],
        "kwargs": {name: MASK if name in secret else read(raw) for name, raw in envelope.kwargs.items()},
    }


def describe_result(payload: bytes, *, job: str = "") -> Any:
    """Answer a stored result as plain data for display; `***` if the task declares it secret.

    Raises: UnknownEnvelope, CorruptRecord.
    """
    envelope = open_envelope(ResultEnvelope, payload, what="result", job=job)
    return MASK if envelope.secret else _PlainReader("result", job)(envelope.value)


def encode_plain(value: object, limit_bytes: int = DEFAULT_LIMIT_BYTES, *, what: str) -> bytes:
    """Answer the bytes of a value without a declared type; `what` names it, as in "checkpoint".

    Raises: PayloadRejected, PayloadTooLarge.
    """
    if fault := plain_fault(value, limit_bytes):
        refusal = PayloadTooLarge if fault.too_large else PayloadRejected
        raise refusal(f"{what}{fault.path}: {fault.reason}")
    payload = sealed(PlainEnvelope(v=ENVELOPE_VERSION, plain=value))
    if len(payload) > limit_bytes:
        raise PayloadTooLarge(f"{what} takes {len(payload)} bytes encoded; the limit is {limit_bytes}")
    return payload


def decode_plain(payload: bytes, *, what: str, job: str = "") -> Any:
    """Answer the value that `encode_plain` was given. Raises: UnknownEnvelope, CorruptRecord."""
    return open_envelope(PlainEnvelope, payload, what=what, job=job).plain


class _PlainReader:
    """Reads one raw value after another of one stored value, whose place its errors name."""

    __slots__ = ("_job", "_what")

    def __init__(self, what: str, job: str) -> None:
        self._what = what
        self._job = job

    def __call__(self, raw: msgspec.Raw) -> Any:
        try:
            return _anything.decode(raw)
        except msgspec.DecodeError as error:
            fault = str(error)
        raise CorruptRecord(f"{place_of(self._what, self._job)} cannot be read: {fault}")


def _check_version(payload: bytes, what: str, job: str) -> None:
    """Raise UnknownEnvelope if the bytes say that they are of a newer version."""
    if len(payload) > HARD_LIMIT_BYTES:
        return
    try:
        version = _version.decode(payload).v
    except (msgspec.DecodeError, RecursionError):
        return
    if ENVELOPE_VERSION < version <= INT_MAX:
        raise UnknownEnvelope(
            f"{place_of(what, job)} has version {version}, this release knows {ENVELOPE_VERSION}; "
            "a worker of the release that wrote it can read it",
            version=version,
        )


def _is_deeper(bare: bytes, nesting: int) -> bool:
    """Answer whether brackets outside of texts nest deeper; each round takes the innermost pairs away."""
    brackets = bare.translate(_BRACKETS, _NOT_BRACKETS)
    for _ in range(nesting):
        before, brackets = brackets, brackets.replace(b"[]", b"")
        if not brackets:
            return False
        if len(brackets) == len(before):
            break
    return b"[" in brackets
