"""From public words to a running worker: options, routines, signals, event loop."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, TypedDict

from leasemq.additions import Additions, name_of
from leasemq.backend import Backend
from leasemq.client.loop_thread import has_running_loop
from leasemq.errors import InvalidSetting, Refused, SyncInsideLoop
from leasemq.protocol.times import positive_seconds_to_ms, seconds_to_ms
from leasemq.serving.collecting import rare_collections
from leasemq.settings import DEFAULT_QUEUE, Seconds, Settings
from leasemq.task import Task

if TYPE_CHECKING:
    from leasemq.events import Observer
    from leasemq.serving.attendant import Attendant
    from leasemq.worker import Worker
    from leasemq.worker.hooks import Hooks
    from leasemq.worker.scopes import WorkerScope


class WorkerOptions(TypedDict, total=False):
    """What `app.worker(...)` takes; the settings say what is left out. Times are seconds or timedelta."""

    queues: Sequence[str] | Mapping[str, int]  # listed order, or weights
    concurrency: int
    lease: Seconds
    heartbeat: Seconds
    drain: Seconds
    abandon_after: Seconds  # from a time-out until a function that runs on loses its job; one lease
    name: str
    sweep: bool  # whether it recovers what others let fall; True
    sweep_every: Seconds
    observer: Observer


class ServingOptions(WorkerOptions, total=False):
    """What `app.run_worker(...)` takes beside that."""

    probe_port: int  # answers GET /live, /ready and /startup; 0: any port that is free
    probe_host: str  # 127.0.0.1


STUBBORN_S = 0.5
CLOSE_SHARED_S = 20.0  # for all that the jobs of a worker shared; each has a bound of its own

MakeWorker = Callable[[Backend], "Worker"]


def worker_maker(
    tasks: Sequence[Task[Any, Any]], settings: Settings, options: WorkerOptions, additions: Additions
) -> MakeWorker:
    """Answer what makes the worker once the backend is open; all else is checked now.

    Raises: InvalidSetting, InvalidQueueName, InvalidDelay, UnnamedTask, TypeError.
    """
    from leasemq.worker import Worker
    from leasemq.worker.scopes import WorkerScope
    from leasemq.worker.settings import WorkerSettings

    if unknown := options.keys() - WorkerOptions.__annotations__.keys():
        allowed = ", ".join(WorkerOptions.__annotations__)
        raise TypeError(f"worker() got an unexpected keyword argument {min(unknown)!r}; it takes {allowed}")
    chosen: dict[str, Any] = {
        "queues": _queues(options.get("queues"), tasks, settings),
        "concurrency": options.get("concurrency", settings.concurrency),
        "lease_ms": settings.lease_ms,
        "drain_ms": settings.drain_ms,
        "event_age_ms": settings.keep_events_ms,
        "keep_newest": settings.keep_newest,
        "sweep": options.get("sweep", True),
    }
    if "lease" in options:
        chosen["lease_ms"] = positive_seconds_to_ms(options["lease"], "lease")
    if "heartbeat" in options:
        chosen["heartbeat_ms"] = positive_seconds_to_ms(options["heartbeat"], "heartbeat")
    if "drain" in options:
        chosen["drain_ms"] = seconds_to_ms(options["drain"], "drain")
    if "abandon_after" in options:
        chosen["abandon_after_ms"] = positive_seconds_to_ms(options["abandon_after"], "abandon_after")
    if "sweep_every" in options:
        chosen["sweep_every_ms"] = positive_seconds_to_ms(options["sweep_every"], "sweep_every")
    if "name" in options:
        chosen["name"] = options["name"]
    checked = WorkerSettings(**chosen)
    routines = {task.name: task.routine() for task in tasks}

    def make(backend: Backend) -> Worker:
        shared = WorkerScope(additions.dependencies, additions.carried)
        equipped = {name: replace(routine, shared=shared) for name, routine in routines.items()}
        hooks = _hooks(additions, shared)
        return Worker(backend, equipped, checked, observer=options.get("observer"), hooks=hooks)

    return make


def _hooks(additions: Additions, shared: WorkerScope) -> Hooks:
    """Answer what to run around a worker; what its jobs share is closed before the app's own hooks run."""
    from leasemq.worker.hooks import Hook, Hooks

    start = (Hook(name=name_of(one), call=one) for one in additions.start)
    stop = (Hook(name=name_of(one), call=one) for one in additions.stop)
    opening = Hook(name="what jobs share", call=shared.open, is_own=True)
    closing = Hook(name="what jobs share", call=shared.close, within_s=CLOSE_SHARED_S, is_own=True)
    return Hooks(start=(opening, *start), stop=(*stop, closing))


def take_attendant(options: ServingOptions) -> tuple[Attendant, WorkerOptions]:
    """Answer who serves probes, systemd and a supervisor, and the options that are left for the worker.

    Raises: InvalidSetting.
    """
    from leasemq.serving.attendant import Attendant
    from leasemq.serving.probes import LOCALHOST, ProbeAddress
    from leasemq.serving.reports import Reporter, post

    host, port = options.pop("probe_host", None), options.pop("probe_port", None)
    if host is not None and port is None:
        raise InvalidSetting(f"probe_host={host!r} says where probes are answered; give probe_port too")
    probes = None if port is None else ProbeAddress(port=port, host=host or LOCALHOST)
    held = post.get()
    return Attendant(probes, None if held is None else Reporter(held)), options


@contextmanager
def stopped_by_signals(worker: Worker) -> Iterator[None]:
    """Let SIGTERM and SIGINT stop the worker: the first drains, a second gives back what runs; SIGHUP drains.

    A supervised worker drains at SIGTERM, however often it comes, and hears from its supervisor when to
    hurry: a signal to the whole group reaches it beside what the supervisor passes on.
    """
    from leasemq.serving.reports import HURRY, post, take_no_more_signals

    loop = asyncio.get_running_loop()

    told: list[signal.Signals] = []

    def drain() -> None:
        if not told:
            told.append(signal.SIGTERM)
            worker.stop()

    def hurry() -> None:
        drain()
        worker.stop()

    if post.get() is not None:
        wired: dict[signal.Signals, Callable[[], None]] = {signal.SIGTERM: drain, HURRY: hurry}
    else:
        wired = {signal.SIGTERM: worker.stop, signal.SIGINT: worker.stop}
        if signal.getsignal(signal.SIGHUP) is signal.SIG_DFL:  # nohup(1) has it ignored
            wired[signal.SIGHUP] = drain  # a terminal that goes may send several
    for one, act in wired.items():
        loop.add_signal_handler(one, act)
    try:
        yield
    finally:
        for one in wired:
            loop.remove_signal_handler(one)
        if post.get() is not None:
            take_no_more_signals()


def run_until_signalled(serve: Callable[[], Coroutine[Any, Any, int]]) -> int:
    """Run the coroutine in an event loop of its own, uvloop's where it is installed.

    Raises: SyncInsideLoop; Refused outside the main thread, where no signal can be handled.
    """
    if threading.current_thread() is not threading.main_thread():
        raise Refused(
            "run_worker() handles signals, which only the main thread can; elsewhere run "
            "`async with app: await app.worker().run()` in an event loop of your own"
        )
    if has_running_loop():
        raise SyncInsideLoop("run_worker() inside a running loop would block it; await app.worker().run()")
    runner = asyncio.Runner(loop_factory=_loop_factory())
    try:
        with rare_collections():
            return runner.run(serve())
    finally:
        # Closing a runner waits for ever for a task that refuses its cancellation.
        if not _stubborn_tasks(runner.get_loop()):
            runner.close()


def _stubborn_tasks(loop: asyncio.AbstractEventLoop) -> set[asyncio.Task[Any]]:
    """Cancel what still runs in the loop, and answer what does not end within half a second."""
    tasks = asyncio.all_tasks(loop)
    if not tasks:
        return tasks
    for task in tasks:
        task.cancel()
    _, pending = loop.run_until_complete(asyncio.wait(tasks, timeout=STUBBORN_S))
    return pending


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    if find_spec("uvloop") is None:
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = import_module("uvloop").new_event_loop
    return factory


def _queues(
    given: Sequence[str] | Mapping[str, int] | None, tasks: Sequence[Task[Any, Any]], settings: Settings
) -> tuple[str, ...] | dict[str, int]:
    """Answer the queues to claim from: those given, those of the settings, or those of the tasks."""
    if isinstance(given, Mapping):
        return dict(given)
    if isinstance(given, str):
        raise InvalidSetting(f"queues={given!r} is a text; say queues=[{given!r}]")
    named = given if given is not None else settings.queues
    if named is not None:
        return tuple(named)
    return tuple(dict.fromkeys(task.policy.queue for task in tasks)) or (DEFAULT_QUEUE,)
