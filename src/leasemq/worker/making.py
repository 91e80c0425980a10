"""How a dependency is made and closed: in a loop or in a thread, its clean-up bounded, no use of itself."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, ExitStack
from contextvars import ContextVar
from types import TracebackType
from typing import Any, assert_never

from leasemq.dependencies import Dependency, Kind, Recipe
from leasemq.errors import InvalidSetting
from leasemq.worker.cancellation import is_from_outside

logger = logging.getLogger("leasemq")

CLEAN_UP_S = 5.0  # for what follows one yield to end

Leave = Callable[
    [type[BaseException] | None, BaseException | None, TracebackType | None], Awaitable[bool | None]
]

Waits = dict[Dependency, list[Recipe]]  # what each of those that are being made waits for

under_way: ContextVar[tuple[Recipe, ...]] = ContextVar("leasemq_making", default=())
"""What is being made here, the innermost last."""


async def made_in_loop(
    recipe: Recipe,
    arguments: tuple[Any, ...],
    stack: AsyncExitStack,
    on_error: Callable[[BaseException], None] | None = None,
) -> Any:
    """Make it in the running loop, and put its clean-up on the stack."""
    match recipe.kind:
        case Kind.PLAIN:
            return recipe.call(*arguments)
        case Kind.COROUTINE:
            return await recipe.call(*arguments)
        case Kind.GENERATOR:
            manager = contextlib.contextmanager(recipe.call)(*arguments)
            value = manager.__enter__()

            async def leave(*told: Any) -> None:
                manager.__exit__(*told)

            stack.push_async_exit(closing(recipe, leave, on_error))
            return value
        case Kind.ASYNC_GENERATOR:
            own = contextlib.asynccontextmanager(recipe.call)(*arguments)
            value = await own.__aenter__()
            stack.push_async_exit(closing(recipe, own.__aexit__, on_error))
            return value
        case _:
            assert_never(recipe.kind)


def made_here(recipe: Recipe, arguments: tuple[Any, ...], stack: ExitStack) -> Any:
    """Make it in this thread, and put its clean-up on the stack."""
    if recipe.kind is Kind.PLAIN:
        return recipe.call(*arguments)
    manager = contextlib.contextmanager(recipe.call)(*arguments)
    value = manager.__enter__()

    def close(
        kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        try:
            manager.__exit__(kind, error, trace)  # whether it wishes to swallow the error is not asked
        except BaseException:  # code of the user's
            if error is None:
                raise
            _log_failed(recipe)
        return False

    stack.push(close)
    return value


def closing(recipe: Recipe, leave: Leave, on_error: Callable[[BaseException], None] | None) -> Leave:
    """Answer the clean-up, bounded. Its error is raised only where no other one is under way.

    With `on_error` it never is: what is shared is closed one after the other, whatever fails.
    """

    async def close(
        kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        try:
            await _bounded(recipe, leave(kind, error, trace))
        except BaseException as failure:  # code of the user's
            if is_from_outside(failure) or (on_error is None and error is None):
                raise
            _log_failed(recipe)
            if on_error is not None:
                on_error(failure)
        return False  # whether it wishes to swallow the error is not asked

    return close


async def _bounded(recipe: Recipe, closing: Awaitable[object]) -> None:
    limit = asyncio.timeout(CLEAN_UP_S)
    try:
        async with limit:
            await closing
    except TimeoutError as error:
        if not limit.expired():
            raise
        raise TimeoutError(f"the clean-up of {recipe.name} did not end within {CLEAN_UP_S:g} s") from error


def _log_failed(recipe: Recipe) -> None:
    logger.exception("the clean-up of the dependency %s failed", recipe.name)


@contextlib.contextmanager
def no_circle(recipe: Recipe, waits: Waits) -> Iterator[None]:
    """Note that what is made here waits for another. Raises: InvalidSetting if that one waits for it.

    `waits` is the scope's: who began elsewhere, at the same time, may close the circle.
    """
    outer = under_way.get()
    asking = outer[-1:]
    if any(one.call is recipe.call for one in outer):
        raise _circle((*outer, recipe))
    for one in asking:
        if (path := _path(waits, recipe, one.call)) is not None:
            raise _circle((one, *path))
        waits.setdefault(one.call, []).append(recipe)
    token = under_way.set((*outer, recipe))
    try:
        yield
    finally:
        under_way.reset(token)
        for one in asking:
            waits[one.call].remove(recipe)


def _path(waits: Waits, start: Recipe, goal: Dependency) -> tuple[Recipe, ...] | None:
    """Answer over what it waits for the goal; None if it does not."""
    if start.call is goal:
        return (start,)
    for one in waits.get(start.call, ()):
        if (path := _path(waits, one, goal)) is not None:
            return (start, *path)
    return None


def _circle(recipes: tuple[Recipe, ...]) -> InvalidSetting:
    return InvalidSetting(f"a dependency uses itself: {' → '.join(one.name for one in recipes)}")
