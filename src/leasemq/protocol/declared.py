"""Errors that a task declares: stored with what they were made from, and made again by whoever waits.

What is stored names a type only to choose among those that the task declares here: nothing is looked up,
imported or pickled. An error whose values cannot be stored, or do not give the same error again, is told
like any other: by name, message and traceback.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from leasemq.errors import InvalidSetting, LeaseMQError
from leasemq.protocol.envelope import json_fault
from leasemq.protocol.failure import ErrorRecord, describe_exception, qualified_name
from leasemq.protocol.names import shown
from leasemq.protocol.signature import Signature

MAX_VALUES_BYTES = 16 * 1024

_BY_POSITION = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_PROGRAM = ("__main__", "__mp_main__")  # what runs, and the same in its child processes
_ABSENT: Any = object()  # Any: stands for a value of any type


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredErrors:
    """The exception classes that a task declares, by qualified name. Built once per task, by `of`."""

    kinds: Mapping[str, type[Exception]] = field(default_factory=dict)
    signatures: Mapping[str, Signature] = field(default_factory=dict)

    @classmethod
    def of(cls, given: Iterable[object], *, task: str) -> DeclaredErrors:
        """Answer the checked classes.

        Raises: InvalidSetting for what is no exception class, is there twice, or is made from parameters
            that cannot be stored.
        """
        if isinstance(given, str | type) or not isinstance(given, Iterable):
            name = getattr(given, "__name__", repr(given))
            raise InvalidSetting(
                f"raises={given!r} is no sequence of exception classes; say raises=({name},)"
            )
        kinds: dict[str, type[Exception]] = {}
        for kind in given:
            if not isinstance(kind, type) or not issubclass(kind, Exception):
                raise InvalidSetting(f"task {shown(task)}, raises: {kind!r} is no exception class")
            name = qualified_name(kind)
            if name in kinds:
                raise InvalidSetting(f"task {shown(task)}, raises: two classes are called {name}")
            kinds[name] = kind
        signatures = {name: _signature(kind, name, task) for name, kind in kinds.items()}
        return cls(kinds=kinds, signatures=signatures)

    def describe(self, error: BaseException, hide: tuple[str, ...] = ()) -> ErrorRecord:
        """Answer the exception as a record, with its values if it is declared. See `describe_exception`.

        Of a subclass that is not declared itself, the nearest class that is stands for it.
        """
        names = {kind: name for name, kind in self.kinds.items()}
        name = next((names[kind] for kind in type(error).__mro__ if kind in names), None)
        if name is None:
            return describe_exception(error, hide)
        secrets, values = hide, b""
        try:
            secrets = (*hide, *self._secrets(error, name))
            values = self._values(error, name)
        except BaseException:  # the exception's own code ran: nothing it does may get out
            return describe_exception(error, secrets)
        record = describe_exception(error, secrets, spare_bytes=len(values))
        if _has_any(values, hide):  # a secret of the job's, which is no parameter marked secret here
            return record
        if json_fault(b"[" + values + b"]"):  # too deep to stand inside an error
            return record
        return replace(record, declared=name, values=values)

    def rebuilt(self, record: ErrorRecord) -> Exception | None:
        """Answer the declared error that was raised; None if it was another, or cannot be made any more."""
        name = self._known_as(record.declared)
        if name is None:
            return None
        try:
            return _made(self.kinds[name], self.signatures[name], record.values)
        except Exception:  # the class's own code ran: it, or what it takes, may have changed since
            return None

    def _known_as(self, declared: str) -> str | None:
        """Answer the stored name as it is here: a program that runs is another module than if imported."""
        if not declared or declared in self.kinds:
            return declared or None
        module, _, path = declared.partition(".")
        found = [name for name, kind in self.kinds.items() if _may_be(kind, declared, module, path)]
        return found[0] if len(found) == 1 else None

    def _secrets(self, error: BaseException, name: str) -> tuple[str, ...]:
        """Answer the texts in what the class itself marks as secret. Raises what it likes."""
        signature = self.signatures[name]
        if not signature.parameters.has_secrets:
            return ()
        found, _ = _found(signature, error)
        return signature.secret_texts(found.args, found.kwargs)

    def _values(self, error: BaseException, name: str) -> bytes:
        """Answer what makes the same error again. Raises what it likes."""
        kind, signature = self.kinds[name], self.signatures[name]
        refusal: LeaseMQError | None = None
        for found, is_guess in (_found(signature, error), (_only_args(error), True)):
            try:
                values = signature.encode_arguments(found.args, found.kwargs, MAX_VALUES_BYTES)
            except LeaseMQError as refused:
                refusal = refusal or refused
                continue
            if _is_same(error, _made(kind, signature, values), found.names, is_guess=is_guess):
                return values
        raise refusal or TypeError(f"{name} is not made again from its attributes or args")


NOTHING_DECLARED = DeclaredErrors()


@dataclass(frozen=True, slots=True)
class _Found:
    """Arguments as an error's class would take them, and the attributes they are from."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    names: tuple[str, ...] = ()


def _signature(kind: type[Exception], name: str, task: str) -> Signature:
    try:
        return Signature.of(kind.__init__, task=f"{task}, raises {name}", skip_first=True)
    except InvalidSetting:
        raise
    except (TypeError, ValueError) as error:  # it has no signature that can be read
        raise InvalidSetting(
            f"task {shown(task)}, raises: the parameters of {name} cannot be read: {error}"
        ) from error


def _found(signature: Signature, error: BaseException) -> tuple[_Found, bool]:
    """Answer each parameter's value, and whether one is a guess.

    It is the attribute of the parameter's name; where there is none, the positional argument in its place.
    """
    bindable = signature.parameters.bindable
    values: dict[str, Any] = {}
    names: list[str] = []
    is_guess = False
    for place, (name, parameter) in enumerate(bindable.parameters.items()):
        value = getattr(error, name, _ABSENT)
        if value is not _ABSENT:
            names.append(name)
        elif parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            value = error.args[place:]
        elif parameter.kind in _BY_POSITION and place < len(error.args):
            value, is_guess = error.args[place], True
        if value is not _ABSENT:
            values[name] = value
    bound = inspect.BoundArguments(bindable, values)
    return _Found(bound.args, bound.kwargs, tuple(names)), is_guess


def _only_args(error: BaseException) -> _Found:
    return _Found(error.args, {})


def _made(kind: type[Exception], signature: Signature, values: bytes) -> Exception:
    """Make the error. By position where that will do, which is what an exception keeps as its `args`."""
    positional, named = signature.decode_arguments(values)
    bound = signature.parameters.bindable.bind(*positional, **named)
    return kind(*bound.args, **bound.kwargs)


def _is_same(error: BaseException, again: Exception, names: tuple[str, ...], *, is_guess: bool) -> bool:
    if any(getattr(again, name, _ABSENT) != getattr(error, name) for name in names):
        return False
    return not is_guess or again.args == error.args or str(again) == str(error)


def _may_be(kind: type, declared: str, module: str, path: str) -> bool:
    if module in _PROGRAM:
        return path == kind.__qualname__
    return kind.__module__ in _PROGRAM and declared.endswith(f".{kind.__qualname__}")


def _has_any(values: bytes, secrets: Iterable[str]) -> bool:
    spelled = (msgspec.json.encode(secret.encode("utf-8", "replace").decode())[1:-1] for secret in secrets)
    return any(secret and secret in values for secret in spelled)
