"""What an app adds to its jobs and its workers: hooks, middleware, carried context, dependencies."""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from leasemq.carried import Carried
from leasemq.context import Ctx
from leasemq.dependencies import Dependencies
from leasemq.errors import InvalidSetting, Refused, Unsupported

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
                call_next = functools.partial(_run, one, ctx, call_next)
            return await call_next()

        return around


def name_of(function: Callable[..., Any]) -> str:
    """Answer how a message names a function."""
    module, name = getattr(function, "__module__", None), getattr(function, "__qualname__", None)
    return repr(function) if name is None else f"{module}.{name}"


class _Next:
    """The next call of one middleware: made once, and over when the middleware is. Owner: one attempt."""

    def __init__(self, middleware: Middleware, call_next: CallNext) -> None:
        self._name = name_of(middleware)
        self._call_next = call_next
        self._home = asyncio.current_task()
        self._away: asyncio.Task[Any] | None = None  # which task of the middleware's own makes the call
        self._is_called = False
        self._is_over = False
        self._returned = asyncio.Event()

    async def call(self) -> Any:
        """Run what is inside. Raises: Refused at a second call, and when the middleware has ended."""
        if self._is_over:
            raise Refused(f"middleware {self._name} called call_next after it had ended; await it before")
        if self._is_called:
            raise Refused(
                f"middleware {self._name} called call_next a second time; "
                "to run the job again, raise RetryAfter or Snooze"
            )
        self._is_called = True
        if (task := asyncio.current_task()) is self._home:
            return await self._call_next()
        self._away = task
        try:
            return await self._call_next()
        except (SystemExit, KeyboardInterrupt) as error:
            raise Unsupported(
                f"the function raised {error!r} in a task that middleware {self._name} made, "
                "where it would end the worker"
            ) from error
        finally:
            self._returned.set()

    async def end(self) -> None:
        """Let nothing run on: the end of the attempt is recorded next."""
        self._is_over = True
        if self._away is not None and not self._returned.is_set():
            self._away.cancel()
            await self._returned.wait()


async def _run(middleware: Middleware, ctx: Ctx, call_next: CallNext) -> Any:
    inner = _Next(middleware, call_next)
    try:
        return await middleware(ctx, inner.call)
    finally:
        await inner.end()


def _check_takes(function: Callable[..., Any], count: int, rule: str) -> None:
    if not callable(function):
        raise InvalidSetting(f"{function!r} is not a function; {rule}")
    try:
        inspect.signature(function).bind(*range(count))
    except (TypeError, ValueError) as error:  # some that are built in tell nobody what they take
        raise InvalidSetting(f"{name_of(function)} does not fit ({error}); {rule}") from error
