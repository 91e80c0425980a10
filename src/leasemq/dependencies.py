"""What functions can ask for with `ctx.use`: which kinds there are, how long each lives, what stands in.

How a dependency is made and closed is decided where it runs: `leasemq.worker.scopes` and `making` there.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from leasemq.context import Ctx, WorkerCtx, is_annotated
from leasemq.errors import InvalidSetting

Dependency = Callable[..., Any]


class Scope(StrEnum):
    """How long what a dependency makes is kept."""

    JOB = "job"  # until the end of the attempt that asked
    WORKER = "worker"  # until the worker stops


class Kind(StrEnum):
    """How a dependency makes its value."""

    PLAIN = "plain"
    COROUTINE = "coroutine"
    GENERATOR = "generator"  # what follows its yield is the clean-up
    ASYNC_GENERATOR = "async generator"

    @property
    def is_async(self) -> bool:
        """Whether it needs an event loop."""
        return self in (Kind.COROUTINE, Kind.ASYNC_GENERATOR)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """A dependency as it is to be made: the function itself, or what stands in for it."""

    name: str
    call: Dependency
    kind: Kind
    scope: Scope
    takes_context: bool

    def arguments(self, context: Ctx | WorkerCtx) -> tuple[Any, ...]:
        """Answer what to call it with."""
        return (context,) if self.takes_context else ()


@dataclass(frozen=True, slots=True, eq=False)
class _StandIn:
    """One override while it lasts; two of the same function are two."""

    call: Dependency


class Dependencies:
    """The scopes and the stand-ins of one app's dependencies. Owner: the App."""

    def __init__(self) -> None:
        self._worker_wide: set[Dependency] = set()
        self._instead: dict[Dependency, tuple[_StandIn, ...]] = {}
        self._changing = threading.Lock()

    def declare(self, function: Dependency, scope: str) -> None:
        """Say how long what this function makes is kept. Raises: InvalidSetting."""
        if scope not in tuple(Scope):
            raise InvalidSetting(f"scope={scope!r} is not one of {', '.join(Scope)}")
        recipe_of(function, Scope(scope))
        if scope == Scope.WORKER:
            self._worker_wide.add(function)
        else:
            self._worker_wide.discard(function)

    @contextmanager
    def overridden(self, function: Dependency, instead: Dependency) -> Iterator[None]:
        """Let another function stand in, with the scope of the one it replaces. Raises: InvalidSetting."""
        recipe_of(instead, self._scope(function))
        stand_in = _StandIn(instead)
        with self._changing:
            self._instead[function] = (*self._instead.get(function, ()), stand_in)
        try:
            yield
        finally:
            with self._changing:  # another thread's may have begun meanwhile, and go on
                others = (one for one in self._instead[function] if one is not stand_in)
                self._instead[function] = tuple(others)

    def recipe(self, function: Dependency) -> Recipe:
        """Answer how to make what a function asks for. Raises: InvalidSetting."""
        stand_ins = self._instead.get(function)
        return recipe_of(stand_ins[-1].call if stand_ins else function, self._scope(function))

    def _scope(self, function: Dependency) -> Scope:
        return Scope.WORKER if function in self._worker_wide else Scope.JOB


def recipe_of(function: Dependency, scope: Scope) -> Recipe:
    """Answer how to make it. Raises: InvalidSetting if it takes what nobody can give it."""
    name = getattr(function, "__qualname__", repr(function))
    if not callable(function):
        raise InvalidSetting(f"{function!r} is no dependency; give the function itself")
    context: type = Ctx if scope is Scope.JOB else WorkerCtx
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except ValueError as error:  # some that are built in tell nobody what they take
        raise InvalidSetting(f"what {name} takes is not known ({error}); wrap it in a function") from error
    takes_context = bool(parameters) and is_annotated(function, parameters[0], context)
    for parameter in parameters[takes_context:]:
        if parameter.default is parameter.empty and parameter.kind not in (
            parameter.VAR_POSITIONAL,
            parameter.VAR_KEYWORD,
        ):
            raise InvalidSetting(
                f"the dependency {name} takes {parameter.name!r}, which nobody gives it; with scope "
                f"{scope.value!r} it may take nothing, or first a parameter annotated as {context.__name__}"
            )
    return Recipe(name=name, call=function, kind=_kind(function), scope=scope, takes_context=takes_context)


def _kind(function: Dependency) -> Kind:
    if inspect.isasyncgenfunction(function):
        return Kind.ASYNC_GENERATOR
    if inspect.isgeneratorfunction(function):
        return Kind.GENERATOR
    return Kind.COROUTINE if inspect.iscoroutinefunction(function) else Kind.PLAIN


NO_DEPENDENCIES = Dependencies()
"""For whoever runs functions without an app: every dependency is a job's, and none is replaced."""
