"""A task's signature: what checks, stores and reads its arguments and its result.

Arguments are bound and validated when they are enqueued, so that a mistake fails at the caller. Nothing
is coerced: "3" is no int. A whole number given where a float is declared arrives as that float.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2s
from types import NoneType
from typing import Any

import msgspec

from leasemq.errors import (
    ArgumentMismatch,
    CorruptRecord,
    LeaseMQError,
    PayloadRejected,
    PayloadTooLarge,
    ResultMismatch,
    ResultNotSerializable,
    ResultTooLarge,
)
from leasemq.protocol.envelope import (
    DEFAULT_LIMIT_BYTES,
    ENVELOPE_VERSION,
    ArgumentsEnvelope,
    ResultEnvelope,
    open_envelope,
    place_of,
    sealed,
)
from leasemq.protocol.names import shown
from leasemq.protocol.one_pass import OnePass
from leasemq.protocol.parameters import Parameters, Place, own_parameters, resolved_hints
from leasemq.protocol.plain import Fault, fields_of, text_fault
from leasemq.protocol.shape import Shape

_HIDDEN_DIGITS = 4  # fewer would blank out line numbers wherever they occur
_anything = msgspec.json.Decoder()


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """What one task's function takes and returns. Built once per task, by `Signature.of`."""

    task: str  # as messages show it
    schema_id: str  # of names, types and result: equal wherever the function is declared alike
    parameters: Parameters
    result: Shape
    one_pass: OnePass | None  # reads what nearly always comes
    nothing: bytes | None  # what stands for a result of None; None: it is none of this task's results

    @classmethod
    def of(cls, function: Callable[..., Any], *, task: str, skip_first: bool = False) -> Signature:
        """Answer the signature; with `skip_first` the first parameter (the context) is no argument.

        Raises: InvalidSetting for annotations that cannot be resolved, or whose values cannot be stored.
        """
        bindable = own_parameters(function, task, skip_first=skip_first)
        hints = resolved_hints(function, bindable.parameters, task)
        parameters = Parameters.of(bindable, hints, task=task)
        result = Shape.of(hints.get("return", Any), where=f"task {task}, return annotation")
        spelling = f"({parameters.spelling}) -> {result.spelling}"
        schema_id = blake2s(spelling.encode(), digest_size=6).hexdigest()
        annotations = {name: hints.get(name, Any) for name in parameters.by_name}
        can_be_nothing = NoneType in result.certain
        return cls(
            task=shown(task),
            schema_id=schema_id,
            parameters=parameters,
            result=result,
            one_pass=OnePass.of(annotations, parameters.required) if parameters.is_simple else None,
            nothing=_sealed_result(schema_id, None, result) if can_be_nothing else None,
        )

    def encode_arguments(
        self, args: Sequence[Any], kwargs: Mapping[str, Any], limit_bytes: int = DEFAULT_LIMIT_BYTES
    ) -> bytes:
        """Answer the arguments' bytes; calls that mean the same give the same bytes.

        Raises: PayloadRejected, naming the parameter and the path in it; PayloadTooLarge.
        """
        bound = self.parameters.bind(args, kwargs)
        if isinstance(bound, str):
            raise PayloadRejected(f"task {self.task}: {bound}")
        positional, named = bound
        for position, value in enumerate(positional):
            positional[position] = self._stored(position, value, limit_bytes)
        for name, value in named.items():
            named[name] = self._stored(name, value, limit_bytes)
        envelope = ArgumentsEnvelope(
            v=ENVELOPE_VERSION,
            schema=self.schema_id,
            args=positional,
            kwargs=named,
            secret=self._secret_places(positional, named) if self.parameters.has_secrets else [],
        )
        payload = _sealed_if_text(envelope)
        if payload is None:
            raise self._text_refused(positional, named)
        if len(payload) > limit_bytes:
            raise self._too_large(len(payload), positional, named, limit_bytes)
        return payload

    def decode_arguments(self, payload: bytes, *, job: str = "") -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Answer what to call the function with; arguments that were not given are left to its defaults.

        Raises: ArgumentMismatch (readable, but it does not fit this function), UnknownEnvelope (of a
        newer version), CorruptRecord (anything else).
        """
        if self.one_pass is not None and (plain := self.one_pass.read(payload)) is not None:
            return (), plain
        envelope = open_envelope(ArgumentsEnvelope, payload, what="arguments", job=job)
        if fault := self.parameters.misfit(len(envelope.args), envelope.kwargs):
            raise self._mismatch(fault, envelope.schema)
        positional = [self._read(place, raw, envelope.schema, job) for place, raw in enumerate(envelope.args)]
        named = {name: self._read(name, raw, envelope.schema, job) for name, raw in envelope.kwargs.items()}
        return tuple(positional), named

    def encode_result(self, value: object, limit_bytes: int = DEFAULT_LIMIT_BYTES) -> bytes:
        """Answer the result's bytes.

        Raises: ResultNotSerializable, naming the path in the result; ResultTooLarge.
        """
        if value is None and self.nothing is not None and len(self.nothing) <= limit_bytes:
            return self.nothing
        stored = self.result.stored(value, limit_bytes)
        if isinstance(stored, Fault):
            raise self._result_refused(stored)
        payload = _sealed_result(self.schema_id, stored, self.result)
        if payload is None:
            raise self._result_refused(text_fault(stored) or Fault(reason="it is not text"))
        if len(payload) > limit_bytes:
            reason = f"takes {len(payload)} bytes encoded; the limit is {limit_bytes}"
            raise self._result_refused(Fault(reason=reason, too_large=True))
        return payload

    def decode_result(self, payload: bytes, *, job: str = "") -> Any:
        """Answer the result, as the declared type.

        Raises: ResultMismatch (readable, but of another type), UnknownEnvelope, CorruptRecord.
        """
        envelope = open_envelope(ResultEnvelope, payload, what="result", job=job)
        value = self.result.read(envelope.value)
        if not isinstance(value, Fault):
            return value
        _check_readable(envelope.value, place_of("result", job))
        fault = self.result.veiled(value)
        raise ResultMismatch(
            f"{place_of('result', job)} is not what task {self.task} declares"
            f"{_at(fault)}: {fault.reason}{self._versus(envelope.schema)}"
        )

    def secret_texts(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[str, ...]:
        """Answer the texts in secret arguments, and numbers of four digits or more, for an error to hide."""
        if not self.parameters.has_secrets:
            return ()
        values: list[tuple[Place, Any]] = [*enumerate(args), *kwargs.items()]
        return tuple(text for place, value in values if self._is_secret(place) for text in _texts(value))

    def _stored(self, place: Place, value: Any, limit_bytes: int) -> Any:
        shape = self.parameters.shape_at(place)
        if shape is None:
            raise AssertionError(f"bound to no parameter: {place}")
        stored = shape.stored(value, limit_bytes)
        if isinstance(stored, Fault):
            raise self._argument_refused(place, shape.veiled(stored))
        return stored

    def _argument_refused(self, place: Place, fault: Fault) -> LeaseMQError:
        refusal = PayloadTooLarge if fault.too_large else PayloadRejected
        return refusal(
            f"task {self.task}, argument {self.parameters.label(place)}{fault.path}: {fault.reason}"
        )

    def _read(self, place: Place, raw: msgspec.Raw, schema: str, job: str) -> Any:
        shape = self.parameters.shape_at(place)
        if shape is None:
            raise self._mismatch(f"unexpected parameter {self.parameters.label(place)}", schema)
        value = shape.read(raw)
        if not isinstance(value, Fault):
            return value
        _check_readable(raw, place_of("arguments", job))
        fault = shape.veiled(value)
        raise self._mismatch(f"parameter {self.parameters.label(place)}{fault.path}: {fault.reason}", schema)

    def _mismatch(self, fault: str, schema: str) -> ArgumentMismatch:
        return ArgumentMismatch(
            f"stored arguments do not fit task {self.task}: {fault}{self._versus(schema)}"
        )

    def _versus(self, schema: str) -> str:
        is_same = schema == self.schema_id
        return "" if is_same else f" (stored under schema {schema}, this worker has {self.schema_id})"

    def _is_secret(self, place: Place) -> bool:
        shape = self.parameters.shape_at(place)
        return shape is not None and shape.is_secret

    def _secret_places(self, positional: list[Any], named: dict[str, Any]) -> list[Place]:
        return [place for place in (*range(len(positional)), *named) if self._is_secret(place)]

    def _text_refused(self, positional: list[Any], named: dict[str, Any]) -> LeaseMQError:
        """Answer the refusal that names the text which cannot be UTF-8: a value, or a name of **kwargs."""
        places: list[tuple[Place, Any]] = [*enumerate(positional), *named.items()]
        for place, value in places:
            texts = [text for text in (place, value) if isinstance(text, str)]
            for fault in filter(None, map(text_fault, texts)):
                reason = "the text has a surrogate" if self._is_secret(place) else fault.reason
                return self._argument_refused(place, Fault(reason=reason))
        return PayloadRejected(f"task {self.task}: an argument is not text")

    def _too_large(
        self, size_bytes: int, positional: list[Any], named: dict[str, Any], limit_bytes: int
    ) -> PayloadTooLarge:
        places: list[tuple[Place, Any]] = [*enumerate(positional), *named.items()]
        sizes = {place: len(msgspec.json.encode(value)) for place, value in places}
        largest = max(sizes, key=lambda place: sizes[place])
        return PayloadTooLarge(
            f"the arguments of task {self.task} take {size_bytes} bytes encoded; the limit is {limit_bytes} "
            f"(the largest, {self.parameters.label(largest)}, takes {sizes[largest]}); "
            "store it elsewhere and pass a key"
        )

    def _result_refused(self, fault: Fault) -> LeaseMQError:
        refusal = ResultTooLarge if fault.too_large else ResultNotSerializable
        fault = self.result.veiled(fault)
        return refusal(f"the result of task {self.task}{_at(fault)}: {fault.reason}")


def _at(fault: Fault) -> str:
    return f", at {fault.path.removeprefix('.')}" if fault.path else ""


def _sealed_if_text(envelope: msgspec.Struct) -> bytes | None:
    """Answer the envelope's bytes; None if a text in it has a surrogate."""
    try:
        return sealed(envelope)
    except UnicodeEncodeError:
        return None


def _sealed_result(schema_id: str, stored: Any, shape: Shape) -> bytes | None:
    return _sealed_if_text(
        ResultEnvelope(v=ENVELOPE_VERSION, schema=schema_id, value=stored, secret=shape.is_secret)
    )


def _check_readable(raw: msgspec.Raw, place: str) -> None:
    """Raise CorruptRecord if the bytes are no JSON value at all, whatever is declared."""
    try:
        _anything.decode(raw)
        return
    except msgspec.DecodeError as error:
        fault = str(error)
    raise CorruptRecord(f"{place} cannot be read: {fault}")


def _texts(value: object) -> Iterator[str]:
    """Answer every text in a value, and its numbers as text; the value was bounded when it was stored."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield from [text for text in [str(value)] if len(text) >= _HIDDEN_DIGITS]
    elif isinstance(value, Mapping):
        yield from _texts([*value.keys(), *value.values()])
    elif isinstance(value, list | tuple | set | frozenset):
        for item in value:
            yield from _texts(item)
    elif (fields := fields_of(value)) is not None:
        yield from _texts([field for _, field in fields])
