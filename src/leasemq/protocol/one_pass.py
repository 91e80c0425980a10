"""Arguments as they nearly always come, read in one pass: all by name, and each fitting its annotation.

Whatever is not so is left to the reader that finds out what is wrong with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin

import msgspec

from leasemq.protocol.envelope import ENVELOPE_VERSION, HARD_LIMIT_BYTES, json_fault
from leasemq.protocol.plain import INT_MAX, INT_MIN

# What has no depth; and a number that fits 63 bits, which is checked while it is read.
_FLAT: Mapping[Any, Any] = {
    str: str,
    bool: bool,
    NoneType: None,
    int: Annotated[int, msgspec.Meta(ge=INT_MIN, le=INT_MAX)],
}


@dataclass(frozen=True, slots=True, kw_only=True)
class OnePass:
    """Reads the stored arguments of one function. Built once per task, by `OnePass.of`."""

    decoder: msgspec.json.Decoder[Any]
    has_optional: bool
    is_flat: bool  # so that neither depth nor a number's size has to be looked at first

    @classmethod
    def of(cls, annotations: Mapping[str, Any], required: frozenset[str]) -> OnePass | None:
        """Answer the reader of these parameters; None: their names or types do not go together."""
        if any(name.startswith("__") for name in annotations):  # a slot of such a name gets another one
            return None
        flat = {name: _flat(annotation) for name, annotation in annotations.items()}
        is_flat = None not in flat.values()
        types = flat if is_flat else annotations
        fields = [
            (name, kind) if name in required else (name, kind, msgspec.UNSET) for name, kind in types.items()
        ]
        options: dict[str, Any] = {"kw_only": True, "forbid_unknown_fields": True}
        try:
            arguments = msgspec.defstruct("Arguments", fields, **options)
            envelope = msgspec.defstruct(
                "Envelope",
                [("v", int), ("schema", str), ("kwargs", arguments), ("secret", list[str], [])],
                **options,
            )
            decoder = msgspec.json.Decoder(envelope)
        except (TypeError, ValueError):
            return None
        return cls(decoder=decoder, has_optional=len(required) < len(annotations), is_flat=is_flat)

    def read(self, payload: bytes) -> dict[str, Any] | None:
        """Answer the arguments by name, those that were not given left out; None: look more closely."""
        if len(payload) > HARD_LIMIT_BYTES or not (self.is_flat or json_fault(payload) is None):
            return None
        try:
            envelope = self.decoder.decode(payload)
        except Exception:  # the declared types run code of their own: __post_init__
            return None
        if envelope.v != ENVELOPE_VERSION:
            return None
        named = msgspec.structs.asdict(envelope.kwargs)
        if not self.has_optional:
            return named
        return {name: value for name, value in named.items() if value is not msgspec.UNSET}


def _flat(annotation: Any) -> Any:
    """Answer the annotation with its numbers bounded; None: it is not made of the types in `_FLAT` alone."""
    members = get_args(annotation) if get_origin(annotation) in (Union, UnionType) else (annotation,)
    if not all(any(member is known for known in _FLAT) for member in members):
        return None
    return Union[tuple(_FLAT[member] for member in members)]  # noqa: UP007  its members are computed
