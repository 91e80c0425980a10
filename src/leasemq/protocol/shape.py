"""What one annotation says about its values: how they are checked, stored and read back."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Literal,
    NewType,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

import msgspec

from leasemq.errors import InvalidSetting
from leasemq.protocol.envelope import json_fault
from leasemq.protocol.fidelity import difference
from leasemq.protocol.plain import MAX_NESTING, Fault, float_fault, int_fault, plain_fault, typed_fault

_ANYTHING = (Any, object)
_SIMPLE: frozenset[type] = frozenset({str, int, float, bool, NoneType})
_READABLE_ERRORS = (TypeError, ValueError, OverflowError, UnicodeEncodeError)  # their text is short and plain
_PLACE = re.compile(r"(?s)(.*) - at `\$(.*)`")

_encoder = msgspec.json.Encoder()


class Secret:
    """Marks values to be masked wherever they are shown: `password: Annotated[str, Secret]`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """The checks of one annotation. Unannotated means any plain data."""

    spelling: str  # equal for annotations that accept the same values
    is_secret: bool
    is_plain: bool
    certain: frozenset[type]  # exact types of which every value fits, numbers within their bounds
    decoder: msgspec.json.Decoder[Any]

    @classmethod
    def of(cls, annotation: Any, *, where: str) -> Shape:
        """Answer the annotation's shape. Raises: InvalidSetting, naming `where`, if it cannot be stored."""
        if annotation is None:
            annotation = NoneType
        _check_storable(annotation, where)
        bare = _without_marks(annotation)
        return cls(
            spelling=_spelled(annotation, frozenset()),
            is_secret=any(_is_secret_mark(node) for node in _nodes(annotation)),
            is_plain=bare in _ANYTHING,
            certain=_certain_types(bare),
            decoder=msgspec.json.Decoder(annotation),
        )

    def stored(self, value: object, limit_bytes: int) -> Any:
        """Answer what to put into the envelope for the value, or the Fault for which it is refused."""
        if type(value) in self.certain:
            return _number_fault(value) or value
        try:
            if self.is_plain:
                return plain_fault(value, limit_bytes) or value
            return typed_fault(value, limit_bytes) or self._round_trip(value)
        except Exception as error:  # the value's own code runs: properties, __eq__, __post_init__
            return _fault_of(error)

    def read(self, raw: msgspec.Raw) -> Any:
        """Answer the value in the bytes, or the Fault for which they are not of this shape."""
        try:
            return self.decoder.decode(raw)
        except Exception as error:  # the declared type's own code runs: __post_init__
            return _fault_of(error)

    def veiled(self, fault: Fault) -> Fault:
        """Answer the fault as it may be shown: of a secret value, nothing but its type."""
        if not self.is_secret:
            return fault
        return Fault(
            reason=f"the value is secret and no {self.spelling} within bounds", too_large=fault.too_large
        )

    def _round_trip(self, value: object) -> Any:
        """Answer the value's bytes, if what a handler would read from them is what was given."""
        encoded = _encoder.encode(value)
        if fault := json_fault(encoded, MAX_NESTING):
            return Fault(reason=fault)
        return difference(value, self.decoder.decode(encoded)) or msgspec.Raw(encoded)


def _number_fault(value: object) -> Fault | None:
    if type(value) is int:
        return int_fault(value)
    return float_fault(value) if type(value) is float else None


def _fault_of(error: Exception) -> Fault:
    if isinstance(error, msgspec.ValidationError) and (placed := _PLACE.fullmatch(str(error))):
        return Fault(reason=placed[1], path=placed[2])
    if isinstance(error, msgspec.MsgspecError) or type(error) in _READABLE_ERRORS:
        return Fault(reason=str(error))
    return Fault(reason=f"its own code raised {type(error).__name__}")


def _certain_types(bare: Any) -> frozenset[type]:
    if bare in _ANYTHING:
        return _SIMPLE
    members = get_args(bare) if get_origin(bare) in (Union, UnionType) else (bare,)
    return frozenset(simple for simple in _SIMPLE if any(simple is member for member in members))


def _without_marks(annotation: Any) -> Any:
    """Answer the annotation without `Annotated`, unless that constrains the values."""
    if get_origin(annotation) is Annotated and not any(
        isinstance(mark, msgspec.Meta) for mark in annotation.__metadata__
    ):
        return get_args(annotation)[0]
    return annotation


def _is_secret_mark(node: Any) -> bool:
    return get_origin(node) is Annotated and any(
        mark is Secret or isinstance(mark, Secret) for mark in node.__metadata__
    )


def _check_storable(annotation: Any, where: str) -> None:
    try:
        msgspec.json.Decoder(annotation)
        unknown = [
            node
            for node in _nodes(annotation)
            if node is not object and isinstance(msgspec.inspect.type_info(node), msgspec.inspect.CustomType)
        ]
    except (TypeError, NameError, RecursionError) as error:
        raise InvalidSetting(f"{where}: values of this annotation cannot be stored: {error}") from error
    if unknown:
        raise InvalidSetting(
            f"{where}: a {_spelled(unknown[0], frozenset())} cannot be stored; declare plain data, "
            "a dataclass, a TypedDict, a msgspec.Struct, an Enum, datetime, UUID, Decimal or bytes"
        )


def _nodes(annotation: Any) -> Iterator[Any]:
    """Answer the annotation and all that it is made of, each once."""
    seen: list[Any] = []  # a list: an annotation need not be hashable
    pending = [annotation]
    while pending:
        node = pending.pop()
        if node is Ellipsis or any(node is known for known in seen):
            continue
        seen.append(node)
        yield node
        pending.extend(_children(node))
        pending.extend(_field_annotations(node).values())


def _children(node: Any) -> tuple[Any, ...]:
    origin = get_origin(node)
    if origin is Literal:
        return ()
    if origin is Annotated:
        return get_args(node)[:1]
    named = _named_by(node if origin is None else origin)
    return get_args(node) if named is None else (*get_args(node), named)


def _named_by(node: Any) -> Any | None:
    """Answer what a NewType or a `type` statement's alias stands for; None for anything else."""
    if isinstance(node, NewType):
        return node.__supertype__
    return None if isinstance(node, type) else getattr(node, "__value__", None)


def _field_annotations(node: Any) -> dict[str, Any]:
    kind = get_origin(node) or node
    if not isinstance(kind, type):
        return {}
    has_fields = issubclass(kind, msgspec.Struct) or dataclasses.is_dataclass(kind) or is_typeddict(kind)
    if not (has_fields or (issubclass(kind, tuple) and hasattr(kind, "_fields"))):
        return {}
    return get_type_hints(kind, include_extras=True)


def _spelled(node: Any, inside: frozenset[int]) -> str:
    """Answer the annotation as text, by structure: what a class is called, not where it is defined."""
    if node in _ANYTHING:
        return "Any"
    if node is Ellipsis:
        return "..."
    origin = get_origin(node)
    if origin is Literal:
        return f"Literal[{', '.join(map(repr, get_args(node)))}]"
    if origin is Annotated:
        limits = [repr(mark) for mark in node.__metadata__ if isinstance(mark, msgspec.Meta)]
        return "".join([_spelled(get_args(node)[0], inside), *limits])
    if origin in (Union, UnionType):
        return " | ".join(sorted(_spelled(member, inside) for member in get_args(node)))
    if (named := _named_by(node)) is not None:
        return node.__name__ if id(node) in inside else _spelled(named, inside | {id(node)})
    if isinstance(node, TypeVar):
        return node.__name__
    arguments = ", ".join(_spelled(argument, inside) for argument in get_args(node))
    return f"{_class_spelled(origin or node, node, inside)}{f'[{arguments}]' if arguments else ''}"


def _class_spelled(kind: Any, node: Any, inside: frozenset[int]) -> str:
    name = getattr(kind, "__qualname__", str(kind))
    if id(kind) in inside:  # a type that contains itself
        return name
    if isinstance(kind, type) and issubclass(kind, Enum):
        return f"{name}({', '.join(f'{member.name}={member.value!r}' for member in kind)})"
    fields = _field_annotations(node)
    if not fields:
        return name
    inside |= {id(kind)}
    return f"{name}({', '.join(f'{field}: {_spelled(inner, inside)}' for field, inner in fields.items())})"
