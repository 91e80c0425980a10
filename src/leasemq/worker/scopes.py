"""Where dependencies are made and closed: the scope of one attempt, and that of one worker.

Nothing is made twice within a scope, and everything is closed in reverse, each clean-up bounded in
time. An attempt's scope has levels: what the function asked for is closed when the function has ended,
before the middleware around it goes on.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from contextlib import AsyncExitStack, ExitStack
from contextvars import Context
from dataclasses import dataclass, field
from functools import cached_property
from types import TracebackType
from typing import Any, TypeVar

from leasemq.carried import Carried, context_without
from leasemq.context import Ctx, Provider, WorkerCtx
from leasemq.dependencies import Dependencies, Dependency, Kind, Recipe, Scope
from leasemq.errors import InvalidSetting, Refused, SyncInsideLoop, Unsupported
from leasemq.logs import this_worker
from leasemq.worker.cancellation import is_from_outside
from leasemq.worker.making import CLEAN_UP_S, Waits, closing, made_here, made_in_loop, no_circle, under_way
from leasemq.worker.threads import Done, Threads

THREADS = "leasemq-shared"
STUBBORN_S = 0.2  # beyond that, for what is shared to hear that its time is over

T = TypeVar("T")


class _Level:
    """What was made, and what closes it. Owned by a scope; most are entered and left with nothing made."""

    __slots__ = ("__dict__", "_levels", "is_closed", "values")

    def __init__(self, levels: list[_Level]) -> None:
        self._levels = levels
        self.values: dict[Dependency, Any] = {}
        self.is_closed = False

    async def __aenter__(self) -> None:
        self._levels.append(self)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        """Close what was asked for inside; it sees the error that comes out."""
        try:
            return bool("stack" in vars(self) and await self.stack.__aexit__(kind, error, trace))
        finally:
            self.is_closed = True
            self._levels.remove(self)

    @cached_property
    def stack(self) -> AsyncExitStack:
        """What closes all that was made."""
        return AsyncExitStack()

    @cached_property
    def locks(self) -> dict[Dependency, asyncio.Lock]:
        """Held by whoever makes something."""
        return {}

    @cached_property
    def waits(self) -> Waits:
        """Who waits for what, so that nobody waits for himself."""
        return {}

    async def made(self, recipe: Recipe, make: Callable[[], Awaitable[Any]]) -> Any:
        """Answer what was made, or make it; whoever asks meanwhile waits for it."""
        if recipe.call not in self.values:
            with no_circle(recipe, self.waits):
                async with self.locks.setdefault(recipe.call, asyncio.Lock()):
                    if recipe.call not in self.values:
                        self.values[recipe.call] = await make()
        if self.is_closed:  # meanwhile, so nobody else would close what was made
            await self.stack.aclose()
            raise _too_late(recipe)
        return self.values[recipe.call]


@dataclass(slots=True)
class _Asset:
    """One thing that jobs share. Owned by a WorkerScope; one task makes, keeps and closes it."""

    recipe: Recipe
    made: asyncio.Future[Done]
    is_closing: asyncio.Event = field(default_factory=asyncio.Event)
    keeper: asyncio.Task[None] | None = None


class WorkerScope:
    """What the jobs of one worker share. Owner: one Worker, in its loop; threads ask through the loop.

    Functions that are not async run in a thread: several threads will use what they make anyway. Each thing
    has a task, since it outlives the job that is the first to ask, and what is entered in one task may not
    be left in another. Its context is the worker's: nothing that belongs to that first job stays with it.
    """

    def __init__(self, dependencies: Dependencies, carried: Carried | None = None) -> None:
        self._dependencies = dependencies
        self._carried = Carried() if carried is None else carried
        self._shared: dict[Dependency, _Asset] = {}
        self._waits: Waits = {}
        self._kept: list[_Asset] = []  # in the order in which they were made
        self.threads = Threads(THREADS)  # for what is made and closed there
        self._loop: asyncio.AbstractEventLoop | None = None  # while it is open
        self._is_closing = False  # nothing is made any more
        self._context = Context()
        self._failed: list[BaseException] = []

    async def open(self) -> None:
        """Note in which loop everything is made."""
        self._loop = asyncio.get_running_loop()
        self._context = context_without(self._carried.variables)

    async def use(self, dependency: Dependency, context: Ctx | WorkerCtx) -> Any:
        """See `Provider.use`."""
        recipe = self._dependencies.recipe(dependency)
        if recipe.scope is not Scope.WORKER:
            raise InvalidSetting(
                f"the dependency {recipe.name} is made for one job, so what all jobs share cannot use it; "
                "declare it with scope='worker'"
            )
        if asyncio.get_running_loop() is not self._loop:  # a function in a thread may run a loop of its own
            return await asyncio.wrap_future(self._asked(dependency, context))
        asset = self._shared.get(recipe.call)
        if asset is None or not asset.made.done():
            with no_circle(recipe, self._waits):
                asset = asset or self._begin(recipe)
                await asyncio.wait({asset.made})  # who is cancelled leaves it to the others
        done = asset.made.result()
        if done.error is not None:
            raise done.error
        return done.value

    def use_sync(self, dependency: Dependency, context: Ctx) -> Any:
        """See `Provider.use_sync`."""
        return self._asked(dependency, context).result()

    def _asked(self, dependency: Dependency, context: Ctx | WorkerCtx) -> Future[Any]:
        """Ask in the worker's loop, from elsewhere."""
        loop = self._loop
        if loop is None:
            raise _closed()
        asking = self.use(dependency, context)
        try:
            return asyncio.run_coroutine_threadsafe(asking, loop)
        except RuntimeError as error:  # the loop is closed
            asking.close()
            raise _closed() from error

    async def close(self) -> None:
        """Close everything, newest first. Raises: the first error of a clean-up, once all were tried."""
        self._is_closing = True
        unmade = [one.keeper for one in self._shared.values() if one.keeper and not one.made.done()]
        try:
            for keeper in unmade:
                keeper.cancel()
            if unmade:
                await asyncio.wait(unmade, timeout=CLEAN_UP_S)
            for one in reversed(self._kept):
                self._shared.pop(one.recipe.call, None)  # its clean-up may use what was made before
                one.is_closing.set()
                if one.keeper is not None:
                    await asyncio.wait({one.keeper}, timeout=CLEAN_UP_S + STUBBORN_S)
        finally:
            self._loop = None
            for one in reversed(self._kept):
                if one.keeper is not None and one.keeper.cancel():
                    self._failed.append(TimeoutError(f"{one.keeper.get_name()} was not closed"))
            self.threads.close()
        failed, self._failed = self._failed, []
        for error in failed:
            raise error

    def _begin(self, recipe: Recipe) -> _Asset:
        if self._loop is None or self._is_closing:
            raise _closed()
        context = self._context.copy()
        context.run(under_way.set, under_way.get())
        context.run(this_worker.set, this_worker.get())
        asset = self._shared[recipe.call] = _Asset(recipe=recipe, made=self._loop.create_future())
        keeping = self._keep(recipe, asset)
        asset.keeper = self._loop.create_task(keeping, name=f"dependency {recipe.name}", context=context)
        asset.keeper.add_done_callback(lambda _: _answer(asset, Done(None, _not_made(recipe))))
        return asset

    async def _keep(self, recipe: Recipe, asset: _Asset) -> None:
        """Make it, keep it until it is to be closed, and close it."""
        async with AsyncExitStack() as stack:
            done = await self._outcome(recipe, stack)
            is_kept = done.error is None and not self._is_closing
            if is_kept:
                self._kept.append(asset)
            else:
                self._shared.pop(recipe.call, None)  # the next one tries again
            _answer(asset, done)
            if is_kept:
                await asset.is_closing.wait()

    async def _outcome(self, recipe: Recipe, stack: AsyncExitStack) -> Done:
        try:
            return Done(await self._make(recipe, stack), None)
        except BaseException as error:  # code of the user's: whatever it raises is told to those who ask
            if is_from_outside(error):
                return Done(None, _not_made(recipe))
            return Done(None, error)

    async def _make(self, recipe: Recipe, stack: AsyncExitStack) -> Any:
        arguments = recipe.arguments(WorkerCtx(self))
        if recipe.kind.is_async:
            return await made_in_loop(recipe, arguments, stack, self._failed.append)
        if recipe.kind is Kind.PLAIN:
            return await self._in_thread(lambda: recipe.call(*arguments))
        manager = contextlib.contextmanager(recipe.call)(*arguments)
        value = await self._in_thread(manager.__enter__)

        async def leave(*told: Any) -> None:
            await self._in_thread(lambda: manager.__exit__(*told))

        stack.push_async_exit(closing(recipe, leave, self._failed.append))
        return value

    async def _in_thread(self, call: Callable[[], Any]) -> Any:
        done = await self.threads.start(call)
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
        self._loop: asyncio.AbstractEventLoop | None = None  # of the levels
        self._in_thread: ExitStack | None = None
        self._of_thread: dict[Dependency, Any] = {}
        self._one_at_a_time = threading.RLock()

    def level(self) -> _Level:
        """Answer what closes at its end what was asked for inside: `async with scope.level():`."""
        self._loop = asyncio.get_running_loop()
        return _Level(self._levels)

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
                with self._one_at_a_time:  # another thread of the function's may be making something
                    self._in_thread = None

    async def use(self, dependency: Dependency, context: Ctx | WorkerCtx) -> Any:
        """See `Provider.use`."""
        recipe = self._dependencies.recipe(dependency)
        if recipe.scope is Scope.WORKER:
            return await self._worker(recipe).use(dependency, context)
        if self._in_thread is not None and asyncio.get_running_loop() is not self._loop:
            raise InvalidSetting(
                f"await ctx.use({recipe.name}) in a loop of its own, where nothing would close it; "
                f"say ctx.use_sync({recipe.name}) outside of that loop"
            )
        if not self._levels:
            raise _too_late(recipe)
        level = next((one for one in self._levels if recipe.call in one.values), self._levels[-1])
        return await level.made(recipe, lambda: made_in_loop(recipe, recipe.arguments(context), level.stack))

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
            with no_circle(recipe, {}):  # one at a time, so nobody else waits
                value = made_here(recipe, recipe.arguments(context), self._in_thread)
            self._of_thread[recipe.call] = value
            return value

    def _worker(self, recipe: Recipe) -> Provider:
        if self._shared is None:
            raise Unsupported(
                f"the dependency {recipe.name} is shared by the jobs of a worker, which is another process "
                "than this job's; use one with the scope of a job"
            )
        return self._shared


def _answer(asset: _Asset, done: Done) -> None:
    if not asset.made.done():
        asset.made.set_result(done)


def _not_made(recipe: Recipe) -> Refused:
    return Refused(f"the worker stops, so its {recipe.name} was not made")


def _closed() -> Refused:
    return Refused("the worker does not run (any more), so nothing that its jobs share can be made or used")


def _too_late(recipe: Recipe) -> Refused:
    return Refused(f"the dependency {recipe.name} was asked for after the function had ended")
