"""A unique key derived from the task and the arguments of a call, where nobody gives one.

The key is `arguments-` and 32 hex digits: BLAKE2b (RFC 7693, 16 bytes) over the canonical JSON of the task's
name and of the arguments by parameter. Canonical means: as the function gets them, by name, those that equal
the parameter's default left out, the entries of dicts and sets in the order of their encodings. So the key
is the same however a call is written, in every process, and when an optional parameter is added.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b
from operator import itemgetter
from typing import Any

import msgspec

from leasemq.protocol.envelope import DEFAULT_LIMIT_BYTES
from leasemq.protocol.plain import Fault, fields_of
from leasemq.protocol.shape import Shape
from leasemq.protocol.signature import Signature

PREFIX = "arguments-"
_DIGEST_BYTES = 16
_encoder = msgspec.json.Encoder()


def derived_key(task: str, signature: Signature, given: Mapping[str, Any]) -> str:
    """Answer the key of a call.

    Args:
        given: the arguments by the name of their parameter, without those left to defaults.
    """
    told = {name: _canonical(value) for name, value in given.items()}
    differing = {name: text for name, text in sorted(told.items()) if text != _default_of(signature, name)}
    text = _encoder.encode([task, differing])
    return f"{PREFIX}{blake2b(text, digest_size=_DIGEST_BYTES).hexdigest()}"


def _default_of(signature: Signature, name: str) -> str | None:
    """Answer the canonical text of the default as it would arrive if it were given; None: there is none."""
    parameters = signature.parameters
    default = parameters.bindable.parameters[name].default
    shape = parameters.named_shapes.get(name)
    if default is parameters.bindable.empty:
        return None
    if shape is None:
        shape = parameters.placed_shapes[parameters.by_place.index(name)]
    return _arrived(shape, default)


def _arrived(shape: Shape, value: Any) -> str | None:
    stored = shape.stored(value, DEFAULT_LIMIT_BYTES)
    if isinstance(stored, Fault):
        return None  # a caller could not give it either
    arrived = shape.read(msgspec.Raw(_encoder.encode(stored)))
    return None if isinstance(arrived, Fault) else _canonical(arrived)


def _canonical(value: Any) -> str:
    """Answer a text that is equal for equal values; what is nested was bounded when it was encoded."""
    if isinstance(value, list | tuple):
        return f"[{','.join(map(_canonical, value))}]"
    if isinstance(value, set | frozenset):
        return f"[{','.join(sorted(map(_canonical, value)))}]"
    if isinstance(value, Mapping):
        pairs = sorted(f"{_canonical(key)}:{_canonical(inner)}" for key, inner in value.items())
        return f"{{{','.join(pairs)}}}"
    if (fields := fields_of(value)) is not None:
        inside = ",".join(f"{name}:{_canonical(inner)}" for name, inner in sorted(fields, key=itemgetter(0)))
        return f"{type(value).__name__}({inside})"
    return _encoder.encode(value).decode()
