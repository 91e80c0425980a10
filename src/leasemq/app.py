"""The composition root: settings, backend, tasks and workers of one program."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractContextManager, asynccontextmanager
from contextvars import ContextVar
from pathlib import PurePath
from types import MappingProxyType, TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, Literal, ParamSpec, Self, TypeVar, Unpack, overload

from leasemq.additions import Additions, H, M
from leasemq.backend import Backend
from leasemq.client.connection import Connections, Source
from leasemq.client.loop_thread import has_running_loop
from leasemq.client.schemes import anchored, checked_scheme, in_namespace, open_backend
from leasemq.context import Ctx
from leasemq.decorating import Decorator
from leasemq.errors import InvalidSetting, Refused
from leasemq.events import logger
from leasemq.functions import runs_in_loop, takes_context
from leasemq.option_checks import check_retry
from leasemq.oversight import Oversight
from leasemq.policy import TaskOptions, checked_policy
from leasemq.protocol.insight import Capabilities
from leasemq.protocol.names import shown
from leasemq.protocol.parameters import own_parameters
from leasemq.protocol.retry import Retry
from leasemq.settings import (
    Origin,
    Project,
    SettingArguments,
    Settings,
    find_settings,
    read_project,
)
from leasemq.task import (
    AsyncTask,
    PlainTask,
    Surroundings,
    Task,
)
from leasemq.worker_setup import (
    MakeWorker,
    ServingOptions,
    WorkerOptions,
    run_until_signalled,
    stopped_by_signals,
    take_attendant,
    worker_maker,
)

if TYPE_CHECKING:
    from leasemq.serving.attendant import Attendant
    from leasemq.worker import Worker

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])


class App(Oversight):
    """One program's queue: its backend, its tasks, its workers. Owner: the program.

    Nothing is opened before the first use; `async with app` opens, and closes at its end. One app may
    be used from several event loops and threads, and after a fork: each gets a connection of its own.

    Args:
        url: where jobs live, `sqlite:///jobs.db`; or a backend, for one event loop (memory: for all).
            Else `LEASEMQ_URL`, else `url` in `[tool.leasemq]`.
        retry: for all tasks that do not say otherwise.
        settings: see `leasemq.settings.SettingArguments`.
    """

    def __init__(
        self,
        url: str | Backend | None = None,
        *,
        retry: Retry | None = None,
        **settings: Unpack[SettingArguments],
    ) -> None:
        if unknown := settings.keys() - SettingArguments.__annotations__.keys():
            allowed = ", ".join(("retry", *SettingArguments.__annotations__))
            raise TypeError(f"App() got an unexpected keyword argument {min(unknown)!r}; it takes {allowed}")
        check_retry(retry)
        _check_backend(url)
        self._given = None if url is None or isinstance(url, str) else url
        self._arguments: dict[str, object] = {"url": url if isinstance(url, str) else None, **settings}
        find_settings(self._arguments, Project(), {})  # a wrong argument is refused where it stands
        self._project = read_project()
        self._found: tuple[Settings, list[Origin]] | None = None
        self._tasks: dict[str, Task[Any, Any]] = {}
        self._known_as: dict[str, Task[Any, Any]] = {}
        self._connections = Connections(self._source)
        self._additions = Additions()
        self._around = Surroundings(
            connections=self._connections,
            settings=lambda: self.settings,
            retry=retry,
            additions=self._additions,
        )

    # ---- tasks

    @overload
    def task(  # type: ignore[overload-overlap]  # see Decorator
        self, function: Callable[Concatenate[Ctx, P], Coroutine[Any, Any, R]], /
    ) -> AsyncTask[P, R]: ...
    @overload
    def task(  # type: ignore[overload-overlap]  # see Decorator
        self, function: Callable[P, Coroutine[Any, Any, R]], /
    ) -> AsyncTask[P, R]: ...
    @overload
    def task(self, function: Callable[Concatenate[Ctx, P], R], /) -> PlainTask[P, R]: ...
    @overload
    def task(self, function: Callable[P, R], /) -> PlainTask[P, R]: ...
    @overload
    def task(self, /, **options: Unpack[TaskOptions]) -> Decorator: ...
    def task(self, function: Callable[..., Any] | None = None, /, **options: Unpack[TaskOptions]) -> Any:
        """Register a function as a task: `@app.task`, or `@app.task(queue="mail", retry=Retry(5))`.

        Raises: InvalidSetting, InvalidName, InvalidDelay, Unsupported.
        """
        return Decorator(self._register, options) if function is None else self._register(function, options)

    @property
    def tasks(self) -> Mapping[str, Task[Any, Any]]:
        """The tasks by name."""
        return MappingProxyType(self._tasks)

    def _register(self, function: Callable[..., Any], options: TaskOptions) -> Task[Any, Any]:
        is_async = runs_in_loop(function)
        default_name = f"{function.__module__}.{function.__qualname__}"
        has_context = takes_context(function)
        parameters = own_parameters(function, default_name, skip_first=has_context)
        policy = checked_policy(options, default_name, parameters, is_async=is_async)
        kind = AsyncTask if is_async else PlainTask
        task: Task[Any, Any] = kind(function, policy, self._around, takes_context=has_context)
        for name in (policy.name, *policy.aliases):
            if name in self._known_as:
                raise InvalidSetting(
                    f"the task name {shown(name)!r} is taken by {self._known_as[name]!r}; choose another"
                )
        self._known_as.update(dict.fromkeys((policy.name, *policy.aliases), task))
        self._tasks[policy.name] = task
        return task

    # ---- what is added to jobs and workers

    def on_start(self, function: H, /) -> H:
        """Run a function in the loop of each worker before its first claim; async or not.

        An error ends the worker before it claims anything. Raises: InvalidSetting.
        """
        return self._additions.add_hook(self._additions.start, function)

    def on_stop(self, function: H, /) -> H:
        """Run a function in the loop of each worker after its last settlement, the newest first.

        Also when a start hook failed. An error is logged and ends the worker with another code than 0;
        the other hooks still run. Each has a few seconds. Raises: InvalidSetting.
        """
        return self._additions.add_hook(self._additions.stop, function)

    def middleware(self, function: M, /) -> M:
        """Run `async def f(ctx, call_next)` around each attempt, the first registered outermost.

        In the worker's loop, wherever the job's own function runs. What it returns is the result, what it
        raises is the failure; `await call_next()` answers the function's value or raises its error.

        Raises: InvalidSetting.
        """
        return self._additions.add_middleware(function)

    def carry(self, variable: ContextVar[Any], *, name: str | None = None) -> None:
        """Let a context variable travel with jobs: its value at the enqueue holds in the function.

        Plain data, 8 KiB for all together. Jobs that the function enqueues take it on. `name` is what it is
        called on the way, by default the variable's own name. Raises: InvalidSetting.
        """
        self._additions.carried.add(variable, name)

    def dependency(self, *, scope: Literal["job", "worker"] = "job") -> Callable[[F], F]:
        """Say how long what a function makes for `ctx.use` is kept; undeclared ones are made for a job.

        With `worker` it is made once per worker, at first use, and closed at its stop.

        Raises: InvalidSetting.
        """

        def declare(function: F) -> F:
            self._additions.dependencies.declare(function, scope)
            return function

        return declare

    def override(
        self, dependency: Callable[..., Any], instead: Callable[..., Any]
    ) -> AbstractContextManager[None]:
        """Let another function stand in for a dependency: `with app.override(get_db, fake_db):` in a test.

        In all threads and loops. Raises: InvalidSetting.
        """
        return self._additions.dependencies.overridden(dependency, instead)

    # ---- settings and the backend

    @property
    def settings(self) -> Settings:
        """The settings that hold; the environment is read at first use. Raises: InvalidSetting."""
        return self._settings_found()[0]

    @property
    def origins(self) -> Sequence[Origin]:
        """Each setting with its source, passwords masked."""
        return self._settings_found()[1]

    def _settings_found(self) -> tuple[Settings, list[Origin]]:
        if self._found is None:
            self._found = find_settings(self._arguments, self._project)
        return self._found

    def _source(self) -> Source:
        settings = self.settings
        required = settings.require_durability
        if (given := self._given) is not None:
            return Source(open=lambda: given, is_shared=True, require_durability=required)
        if settings.url is None:
            raise InvalidSetting(
                "no backend is named: give App a URL such as sqlite:///jobs.db, set LEASEMQ_URL, "
                "or put url into [tool.leasemq] of pyproject.toml"
            )
        url = anchored(settings.url, self._project.folder)
        if settings.namespace is not None:
            url = in_namespace(url, settings.namespace)
        shared = checked_scheme(url).in_process
        return Source(open=lambda: open_backend(url), is_shared=shared, require_durability=required)

    async def __aenter__(self) -> Self:
        await self._connections.enter()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._connections.leave()

    def __enter__(self) -> Self:
        """Open for callers without an event loop. Raises: SyncInsideLoop, and as `async with`."""
        self._connections.call(self._connections.enter, "`async with app`")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._connections.call(self._connections.leave, "`async with app`")

    @asynccontextmanager
    async def lifespan(self, asgi_app: object = None) -> AsyncIterator[None]:
        """Open the app for as long as a web application lives: `Starlette(lifespan=app.lifespan)`."""
        async with self:
            yield

    async def prepare(self) -> Capabilities:
        """Open the backend if it is not, and answer what it can do and how durable it is."""
        return (await self._connections.here()).capabilities

    async def close(self) -> None:
        """Close what this event loop has open; the next use opens anew."""
        await self._connections.close_here()

    def prepare_sync(self) -> Capabilities:
        """See `prepare`."""
        return self._connections.call(self.prepare, "app.prepare()")

    def close_sync(self) -> None:
        """See `close`; closes what the process's own loop for such callers has open."""
        self._connections.call(self.close, "app.close()")

    def call_sync(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run a coroutine of this app for a caller without an event loop.

        For example `app.call_sync(app.queue("mail").pause)`. Raises: SyncInsideLoop.
        """
        return self._connections.call(work, "it")

    # ---- workers

    def worker(self, **options: Unpack[WorkerOptions]) -> Worker:
        """Answer a worker for this app's tasks; `await worker.run()` inside `async with app`.

        Raises: Refused if the app is not open here; InvalidSetting, UnnamedTask.
        """
        connection = self._connections.open_here() if has_running_loop() else None
        if connection is None:
            raise Refused("the app is not open in this event loop; make the worker inside `async with app:`")
        return self._maker(options)(connection.backend)

    def run_worker(self, **options: Unpack[ServingOptions]) -> int:
        """Run a worker until SIGTERM or SIGINT, and answer the exit code.

        The first signal drains; a second one gives back what runs, at once. For the main thread. With
        `probe_port` it answers probes, and where systemd asks for notices it gives them.

        Raises: InvalidSetting, UnnamedTask, BackendUnavailable, Unsupported.
        """
        attendant, chosen = take_attendant(options)
        make = self._maker(chosen)  # a bad option is refused before anything is opened
        with attendant:
            return run_until_signalled(lambda: self._serve(make, attendant))

    def _maker(self, options: WorkerOptions) -> MakeWorker:
        return worker_maker(list(self._tasks.values()), self.settings, options, self._additions)

    async def _serve(self, make: MakeWorker, attendant: Attendant) -> int:
        connection = await self._connections.enter()
        try:
            can = connection.capabilities
            logger.info("backend %s, durability %s, store %s", can.server, can.durability, can.store_id)
            worker = make(connection.backend)
            attendant.attend(worker.health)
            with stopped_by_signals(worker):
                return await worker.run()
        finally:
            await self._connections.leave()


def _check_backend(given: object) -> None:
    if isinstance(given, PurePath):
        raise InvalidSetting(f"App({given!r}) is a path; say App('sqlite:///{given}')")
    if not (given is None or isinstance(given, str) or hasattr(given, "claim")):
        raise InvalidSetting(f"App({given!r}) names no backend; give a URL such as sqlite:///jobs.db")
