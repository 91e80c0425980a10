"""Where dependencies are made and closed: the scope of one attempt, and that of one worker.

Nothing is made twice within a scope, and everything is closed in reverse, each clean-up bounded in
time. An attempt's scope has levels: what the function asked for is closed when the function has ended,
before the middleware around it goes on.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, ExitStack
from contextvars import ContextVar
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, TypeVar, assert_never

from leasemq.context import Ctx, Provider, WorkerCtx
from leasemq.dependencies import Dependencies, Dependency, Kind, Recipe, Scope
from leasemq.errors import InvalidSetting, Refused, SyncInsideLoop, Unsupported
from leasemq.worker.threads import Threads

logger = logging.getLogger("leasemq")

CLEAN_UP_S = 5.0  # for what follows one yield to end

T = TypeVar("T")
Leave = Callable[
    [type[BaseException] | None, BaseException | None, TracebackType | None], Awaitable[bool | None]
]

_making: ContextVar[tuple[Recipe, ...]] = ContextVar("leasemq_making", default=())


@dataclass(slots=True)
class _Level:
    """What was made, and what closes it. Owned by a scope."""

    stack: AsyncExitStack = field(default_factory=AsyncExitStack)
    values: dict[Dependency, Any] = field(default_factory=dict)
    locks: dict[Dependency, asyncio.Lock] = field(default_factory=dict)

    async def made(self, recipe: Recipe, make: Callable[[], Awaitable[Any]]) -> Any:
        """Answer what was made, or make it; whoever asks meanwhile waits for it."""
        if recipe.call not in self.values:
            with _no_circle(recipe):
                async with self.locks.setdefault(recipe.call, asyncio.Lock()):
                    if recipe.call not in self.values:
                        self.values[recipe.call] = await make()
        return self.values[recipe.call]


class WorkerScope:
    """What the jobs of one worker share. Owner: one Worker, in its loop; threads ask through the loop.

    Functions that are not async run in a thread: several threads will use what they make anyway.
    """

    def __init__(self, dependencies: Dependencies) -> None:
        self._dependencies = dependencies
        self._stack = AsyncExitStack()
        self._made: dict[Dependency, asyncio.Task[Any]] = {}
        self._threads = Threads("leasemq-shared")
        self._loop: asyncio.AbstractEventLoop | None = None
        self._failed: list[Exception] = []

    async def open(self) -> None:
        """Note in which loop everything is made."""
        self._loop = asyncio.get_running_loop()

    async def use(self, dependency: Dependency, context: Ctx | WorkerCtx) -> Any:
        """See `Provider.use`."""
        recipe = self._dependencies.recipe(dependency)
        if recipe.scope is not Scope.WORKER:
            raise InvalidSetting(
                f"the dependency {recipe.name} is made for one job, so what all jobs share cannot use it; "
                "declare it with scope='worker'"
            )
        making = self._made.get(recipe.call)
        if making is None or not making.done():
            with _no_circle(recipe):
                making = making or self._begin(recipe)
                await asyncio.wait({making})  # who is cancelled leaves it to the others
        if making.cancelled():
            raise Refused(f"the worker stops, so its {recipe.name} was not made")
        return making.result()

    def use_sync(self, dependency: Dependency, context: Ctx) -> Any:
        """See `Provider.use_sync`."""
        if self._loop is None:
            raise Refused("the worker does not run, so nothing that its jobs share can be made")
        return asyncio.run_coroutine_threadsafe(self.use(dependency, context), self._loop).result()

    async def close(self) -> None:
        """Close everything, newest first. Raises: the first error of a clean-up, once all were tried."""
        under_way = {making for making in self._made.values() if making.cancel()}
        if under_way:
            await asyncio.wait(under_way, timeout=CLEAN_UP_S)
        self._made.clear()
        await self._stack.aclose()
        self._threads.close()
        failed, self._failed = self._failed, []
        for error in failed:
            raise error

    def _begin(self, recipe: Recipe) -> asyncio.Task[Any]:
        """Make it in a task of its own, because it outlives the job that is the first to ask."""

        def look(done: asyncio.Task[Any]) -> None:
            if done.cancelled() or done.exception() is not None:
                self._made.pop(recipe.call, None)  # the next one tries again

        making = self._made[recipe.call] = asyncio.create_task(self._make(recipe))
        making.add_done_callback(look)
        return making

    async def _make(self, recipe: Recipe) -> Any:
        arguments = recipe.arguments(WorkerCtx(self))
        if recipe.kind.is_async:
            return await _made_in_loop(recipe, arguments, self._stack, self._failed.append)
        if recipe.kind is Kind.PLAIN:
            return await self._in_thread(lambda: recipe.call(*arguments))
        manager = contextlib.contextmanager(recipe.call)(*arguments)
        value = await self._in_thread(manager.__enter__)

        async def leave(*told: Any) -> None:
            await self._in_thread(lambda: manager.__exit__(*told))

        self._stack.push_async_exit(_closing(recipe, leave, self._failed.append))
        return value

    async def _in_thread(self, call: Callable[[], Any]) -> Any:
        done = await self._threads.start(call)
        if done.error is not None:
            raise done.error
        return done.value


class JobScope:
    """What one attempt uses. Owner: the attempt, in its loop, and in its thread if it has one.

    Args:
        dependencies: The app's.
        shared: The worker's own scope; None in a child process, which has none.
    """

    def __init__(self, dependencies: Dependencies, shared: Provider | None) -> None:
        self._dependencies = dependencies
        self._shared = shared
        self._levels: list[_Level] = []
        self._in_thread: ExitStack | None = None
        self._of_thread: dict[Dependency, Any] = {}
        self._one_at_a_time = threading.RLock()

    @contextlib.asynccontextmanager
    async def level(self) -> AsyncIterator[None]:
        """Close at the end what was asked for inside; it sees the error that comes out."""
        level = _Level()
        self._levels.append(level)
        try:
            async with level.stack:
                yield
        finally:
            self._levels.remove(level)

    def run(self, call: Callable[[], T], check: Callable[[], None]) -> T:
        """Run a function that blocks, and close what it asked for in the same thread.

        `check` raises where the value does not count, so that the clean-ups see why.
        """
        with ExitStack() as stack:
            self._in_thread = stack
            try:
                value = call()
                check()
                return value
            finally:
                self._in_thread = None

    async def use(self, dependency: Dependency, context: Ctx | WorkerCtx) -> Any:
        """See `Provider.use`."""
        recipe = self._dependencies.recipe(dependency)
        if recipe.scope is Scope.WORKER:
            return await self._worker(recipe).use(dependency, context)
        if not self._levels:
            raise _too_late(recipe)
        level = next((one for one in self._levels if recipe.call in one.values), self._levels[-1])
        return await level.made(recipe, lambda: _made_in_loop(recipe, recipe.arguments(context), level.stack))

    def use_sync(self, dependency: Dependency, context: Ctx) -> Any:
        """See `Provider.use_sync`."""
        recipe = self._dependencies.recipe(dependency)
        with contextlib.suppress(RuntimeError):  # no loop runs in this thread
            asyncio.get_running_loop()
            raise SyncInsideLoop(f"await ctx.use({recipe.name}) in a function that runs in a loop")
        if recipe.kind.is_async:
            raise InvalidSetting(
                f"the dependency {recipe.name} is asynchronous, and this function runs in a thread; "
                "make one of them like the other"
            )
        if recipe.scope is Scope.WORKER:
            return self._worker(recipe).use_sync(dependency, context)
        with self._one_at_a_time:
            for values in (*(level.values for level in self._levels), self._of_thread):
                if recipe.call in values:
                    return values[recipe.call]
            if self._in_thread is None:
                raise _too_late(recipe)
            with _no_circle(recipe):
                value = _made_here(recipe, recipe.arguments(context), self._in_thread)
            self._of_thread[recipe.call] = value
            return value

    def _worker(self, recipe: Recipe) -> Provider:
        if self._shared is None:
            raise Unsupported(
                f"the dependency {recipe.name} is shared by the jobs of a worker, which is another process "
                "than this job's; use one with the scope of a job"
            )
        return self._shared


async def _made_in_loop(
    recipe: Recipe,
    arguments: tuple[Any, ...],
    stack: AsyncExitStack,
    on_error: Callable[[Exception], None] | None = None,
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

            stack.push_async_exit(_closing(recipe, leave, on_error))
            return value
        case Kind.ASYNC_GENERATOR:
            own = contextlib.asynccontextmanager(recipe.call)(*arguments)
            value = await own.__aenter__()
            stack.push_async_exit(_closing(recipe, own.__aexit__, on_error))
            return value
        case _:
            assert_never(recipe.kind)


def _made_here(recipe: Recipe, arguments: tuple[Any, ...], stack: ExitStack) -> Any:
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
        except Exception:  # code of the user's
            if error is None:
                raise
            _log_failed(recipe)
        return False

    stack.push(close)
    return value


def _closing(recipe: Recipe, leave: Leave, on_error: Callable[[Exception], None] | None) -> Leave:
    """Answer the clean-up, bounded. Its error is raised only where no other one is under way.

    With `on_error` it never is: what is shared is closed one after the other, whatever fails.
    """

    async def close(
        kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        try:
            await _bounded(recipe, leave(kind, error, trace))
        except Exception as failure:  # code of the user's
            if on_error is None and error is None:
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


def _too_late(recipe: Recipe) -> Refused:
    return Refused(f"the dependency {recipe.name} was asked for after the function had ended")


@contextlib.contextmanager
def _no_circle(recipe: Recipe) -> Iterator[None]:
    under_way = _making.get()
    if any(one.call is recipe.call for one in under_way):
        names = " → ".join(one.name for one in (*under_way, recipe))
        raise InvalidSetting(f"a dependency uses itself: {names}")
    token = _making.set((*under_way, recipe))
    try:
        yield
    finally:
        _making.reset(token)
