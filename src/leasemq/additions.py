"""What an app adds to its jobs and its workers: hooks, middleware, carried context, dependencies."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from leasemq.carried import Carried
from leasemq.context import Ctx
from leasemq.dependencies import Dependencies
from leasemq.errors import InvalidSetting, Refused

CallNext = Callable[[], Awaitable[Any]]
Middleware = Callable[[Ctx, CallNext], Awaitable[Any]]
Hook = Callable[[], object]

H = TypeVar("H", bound=Hook)
M = TypeVar("M", bound=Middleware)


@dataclass(slots=True)
class Additions:
    """What was registered on one app. Owner: the App; it grows while the program is set up."""

    start: list[Hook] = field(default_factory=list)
    stop: list[Hook] = field(default_factory=list)
    middleware: list[Middleware] = field(default_factory=list)
    carried: Carried = field(default_factory=Carried)
    dependencies: Dependencies = field(default_factory=Dependencies)

    def add_hook(self, moment: list[Hook], function: H) -> H:
        """Add a function that takes nothing. Raises: InvalidSetting."""
        _check_takes(function, 0, "a hook takes no parameter")
        moment.append(function)
        return function

    def add_middleware(self, function: M) -> M:
        """Add an async function of a context and the next call. Raises: InvalidSetting."""
        _check_takes(function, 2, "middleware takes the context and the next call: (ctx, call_next)")
        is_async = inspect.iscoroutinefunction(function)  # asked aside: mypy would narrow the type to it
        if not is_async:
            raise InvalidSetting(f"middleware {name_of(function)} is not an async function")
        self.middleware.append(function)
        return function

    def around(self) -> Middleware | None:
        """Answer all middleware as one, the first registered outermost; None if there is none."""
        if not self.middleware:
            return None
        chain = tuple(self.middleware)

        async def around(ctx: Ctx, call_next: CallNext) -> Any:
            for one in reversed(chain):
                call_next = functools.partial(one, ctx, _once(one, call_next))
            return await call_next()

        return around


def name_of(function: Callable[..., Any]) -> str:
    """Answer how a message names a function."""
    module, name = getattr(function, "__module__", None), getattr(function, "__qualname__", None)
    return repr(function) if name is None else f"{module}.{name}"


def _once(middleware: Middleware, call_next: CallNext) -> CallNext:
    """Answer the next call, which can be made a single time: an attempt runs its function once."""
    is_called = False

    async def call() -> Any:
        nonlocal is_called
        if is_called:
            raise Refused(
                f"middleware {name_of(middleware)} called call_next a second time; "
                "to run the job again, raise RetryAfter or Snooze"
            )
        is_called = True
        return await call_next()

    return call


def _check_takes(function: Callable[..., Any], count: int, rule: str) -> None:
    if not callable(function):
        raise InvalidSetting(f"{function!r} is not a function; {rule}")
    try:
        inspect.signature(function).bind(*range(count))
    except TypeError as error:
        raise InvalidSetting(f"{name_of(function)} does not fit ({error}); {rule}") from error
