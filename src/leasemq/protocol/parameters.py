"""The parameters of a task's function: how a call is bound to them, and what each lets through.

Bound arguments are canonical: by name where a name will do, in the function's order, defaults left out.
A *place* is where an argument is stored: its name, or its position.
"""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Never, NoReturn, get_type_hints

from leasemq.errors import InvalidSetting
from leasemq.protocol.names import shown
from leasemq.protocol.shape import Shape

_BY_PLACE = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_BY_NAME = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
_REST = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)

Place = int | str
Bound = tuple[list[Any], dict[str, Any]]  # by position, by name


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters:
    """What a function takes. Built once per task, by `Parameters.of`."""

    bindable: inspect.Signature
    by_place: tuple[str, ...]  # those that a position can fill, in order
    by_name: tuple[str, ...]  # those that a name can fill, in order
    required: frozenset[str]
    named_shapes: Mapping[str, Shape]
    placed_shapes: tuple[Shape, ...]
    rest_name: str | None  # of *args
    rest_placed: Shape | None  # of *args
    rest_named: Shape | None  # of **kwargs
    is_simple: bool  # a name can fill every parameter, and there are no others
    has_secrets: bool
    spelling: str

    @classmethod
    def of(cls, bindable: inspect.Signature, hints: Mapping[str, Any], *, task: str) -> Parameters:
        """Answer the parameters of a signature with resolved annotations. Raises: InvalidSetting."""
        parameters = tuple(bindable.parameters.values())
        shapes = {
            each.name: Shape.of(hints.get(each.name, Any), where=f"task {task}, parameter {each.name}")
            for each in parameters
        }
        rest = {each.kind: each.name for each in parameters if each.kind in _REST}
        rest_name = rest.get(inspect.Parameter.VAR_POSITIONAL)
        by_name = tuple(each.name for each in parameters if each.kind in _BY_NAME)
        by_place = tuple(each.name for each in parameters if each.kind in _BY_PLACE)
        return cls(
            bindable=bindable,
            by_place=by_place,
            by_name=by_name,
            required=frozenset(
                each.name for each in parameters if each.default is each.empty and each.kind not in _REST
            ),
            named_shapes={name: shapes[name] for name in by_name},
            placed_shapes=tuple(shapes[name] for name in by_place),
            rest_name=rest_name,
            rest_placed=shapes.get(rest_name) if rest_name else None,
            rest_named=shapes.get(rest.get(inspect.Parameter.VAR_KEYWORD, "")),
            is_simple=len(by_name) == len(parameters),
            has_secrets=any(shape.is_secret for shape in shapes.values()),
            spelling=", ".join(
                f"{each.kind.name} {each.name}: {shapes[each.name].spelling}" for each in parameters
            ),
        )

    def bind(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Bound | str:
        """Answer new canonical containers of the arguments, or why this is no call of the function."""
        if self.is_simple and len(args) <= len(self.by_place):
            bound = dict(zip(self.by_place, args, strict=False))
            if not kwargs:
                if self.required <= bound.keys():
                    return [], bound
            elif not bound.keys() & kwargs.keys():
                bound.update(kwargs)
                ordered = {name: bound[name] for name in self.by_name if name in bound}
                if len(ordered) == len(bound) and self.required <= bound.keys():
                    return [], ordered
        return self._bind_slowly(args, kwargs)

    def shape_at(self, place: Place) -> Shape | None:
        """Answer the shape of the parameter that takes what is stored there; None: none does."""
        if isinstance(place, str):
            return self.named_shapes.get(place, self.rest_named)
        return self.placed_shapes[place] if place < len(self.placed_shapes) else self.rest_placed

    def label(self, place: Place) -> str:
        """Answer how a message names the parameter."""
        if isinstance(place, str):
            return shown(place, 60)
        if place < len(self.by_place):
            return self.by_place[place]
        if self.rest_name is None:
            return f"number {place + 1}"
        return f"{self.rest_name}[{place - len(self.by_place)}]"

    def misfit(self, placed: int, names: Collection[str]) -> str | None:
        """Answer why so many positions and these names are no call of the function, or None."""
        if self.rest_named is not None:  # takes the name of what only a position fills, and does not fill it
            names = self.named_shapes.keys() & names
        if not placed and self.required.issubset(names):
            return None
        filled = frozenset(self.by_place[:placed])
        for name in self.by_name:
            if name in filled and name in names:
                return f"parameter {name} is given twice"
        missing = [name for name in self.by_place if name in self.required - filled and name not in names]
        missing += [
            n for n in self.by_name if n in self.required - filled and n not in names and n not in missing
        ]
        return f"missing parameter {', '.join(missing)}" if missing else None

    def _bind_slowly(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Bound | str:
        try:
            bound = self.bindable.bind(*args, **kwargs)
        except TypeError as error:
            return str(error)  # names are in it by repr, values are not
        rest: Sequence[Any] = bound.arguments.get(self.rest_name, ()) if self.rest_name else ()
        positional: list[Any] = []
        named: dict[str, Any] = {}
        for name, value in bound.arguments.items():
            match self.bindable.parameters[name].kind:
                case inspect.Parameter.POSITIONAL_ONLY:
                    positional.append(value)
                case inspect.Parameter.VAR_POSITIONAL:
                    positional.extend(value)
                case inspect.Parameter.VAR_KEYWORD:
                    named.update(value)
                case inspect.Parameter.POSITIONAL_OR_KEYWORD if rest:
                    positional.append(value)  # what follows in *args leaves it no other place
                case _:
                    named[name] = value
        return positional, named


def own_parameters(function: Callable[..., Any], task: str, *, skip_first: bool) -> inspect.Signature:
    """Answer the function's signature, without its first parameter (the context) if so asked."""
    signature = inspect.signature(function)
    if not skip_first:
        return signature
    first, *others = signature.parameters.values() or (None,)
    if first is None or first.kind not in _BY_PLACE:
        raise InvalidSetting(f"task {task}: its function has no first parameter to take the context")
    return signature.replace(parameters=others)


def resolved_hints(function: Callable[..., Any], names: Collection[str], task: str) -> dict[str, Any]:
    """Answer the annotations of these parameters and of the return value, as types.

    Other annotations are not looked at: the context's type may be known to type checkers only.
    """
    inner = _inner_function(function)
    wanted = {*names, "return"}
    annotations = {name: value for name, value in inspect.get_annotations(inner).items() if name in wanted}
    holder = types.SimpleNamespace(__annotations__=annotations)
    try:
        hints = get_type_hints(holder, globalns=getattr(inner, "__globals__", {}), include_extras=True)
    except (NameError, TypeError, SyntaxError, AttributeError) as error:
        raise InvalidSetting(
            f"task {task}: an annotation cannot be resolved: {error}; import the name at run time, "
            "at module level, or drop the annotation"
        ) from error
    if hints.get("return") in (NoReturn, Never):
        del hints["return"]
    return hints


def _inner_function(function: Callable[..., Any]) -> Callable[..., Any]:
    inner = inspect.unwrap(function)
    while isinstance(inner, functools.partial):
        inner = inspect.unwrap(inner.func)
    if not inspect.isroutine(inner) and callable(type(inner).__call__):
        inner = type(inner).__call__
    return inner.__func__ if inspect.ismethod(inner) else inner
