"""What `app.task(...)` answers: the decorator that keeps the function's types."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, ParamSpec, TypeVar, overload

from leasemq.context import Ctx
from leasemq.policy import TaskOptions
from leasemq.task import AsyncTask, PlainTask, Task

P = ParamSpec("P")
R = TypeVar("R")

Register = Callable[[Callable[..., Any], TaskOptions], Task[Any, Any]]


class Decorator:
    """What `app.task(...)` answers: give it the function. Owner: the decoration under way."""

    def __init__(self, register: Register, options: TaskOptions) -> None:
        self._register = register
        self._options = options

    # `Ctx` first is the one form in which a type checker can take a parameter away.
    @overload
    def __call__(  # type: ignore[overload-overlap]  # an async function also returns something; the first match is meant
        self, function: Callable[Concatenate[Ctx, P], Coroutine[Any, Any, R]]
    ) -> AsyncTask[P, R]: ...
    @overload
    def __call__(  # type: ignore[overload-overlap]  # as above
        self, function: Callable[P, Coroutine[Any, Any, R]]
    ) -> AsyncTask[P, R]: ...
    @overload
    def __call__(self, function: Callable[Concatenate[Ctx, P], R]) -> PlainTask[P, R]: ...
    @overload
    def __call__(self, function: Callable[P, R]) -> PlainTask[P, R]: ...
    def __call__(self, function: Callable[..., Any]) -> Task[Any, Any]:
        """Register the function. Raises: InvalidSetting, InvalidName, InvalidDelay, Unsupported."""
        return self._register(function, self._options)
