"""Where a registered function is found again in another process: by its module and its place in it.

The references are made from the worker's own registered functions, never from anything stored.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

from leasemq.errors import InvalidSetting
from leasemq.protocol.declared import DeclaredErrors
from leasemq.protocol.names import shown
from leasemq.protocol.retry import Retry
from leasemq.worker.pipe import Learn, Script, Spot
from leasemq.worker.routine import Routine

MAIN = "__main__"
SCRIPT = "__mp_main__"  # what multiprocessing calls a main module in its children: not `__main__`, so that
# nothing below `if __name__ == "__main__":` runs there


def lesson(routine: Routine) -> Learn:
    """Answer what a child must know to run the function. Raises: InvalidSetting if it cannot find it."""
    retry = routine.retry
    retry_on = None if retry is None or retry.retry_on is None else _classes(routine, retry.retry_on)
    spot = _spot(routine.call)
    if spot is None:
        raise InvalidSetting(
            f"task {shown(routine.name)} has executor='process', but a child process cannot import its "
            f"function {getattr(routine.call, '__qualname__', routine.call)!r}; define it at the top level "
            "of a module"
        )
    give_up_on = _classes(routine, retry.give_up_on) if retry is not None else []
    raises = _classes(routine, tuple(routine.raises.kinds.values()), of="its raises")
    spots = [spot, *(retry_on or ()), *give_up_on, *raises]
    is_of_script = any(one.module in (MAIN, SCRIPT) for one in spots)
    return Learn(
        name=routine.name,
        function=spot,
        script=_script(routine) if is_of_script else None,
        is_async=routine.is_async,
        takes_context=routine.takes_context,
        result_limit_bytes=routine.result_limit_bytes,
        memory_limit_bytes=routine.memory_limit_bytes,
        retries=retry is not None,
        retry_on=retry_on,
        give_up_on=give_up_on,
        raises=raises,
    )


def learned_retry(told: Learn) -> Retry | None:
    """Answer the policy's rules by exception class; when to run again is the worker's to say."""
    if not told.retries:
        return None
    retry_on = None if told.retry_on is None else tuple(found(spot, told.script) for spot in told.retry_on)
    return Retry(retry_on=retry_on, give_up_on=tuple(found(spot, told.script) for spot in told.give_up_on))


def learned_errors(told: Learn) -> DeclaredErrors:
    """Answer the errors that the task declares."""
    return DeclaredErrors.of([found(spot, told.script) for spot in told.raises], task=told.name)


def found(spot: Spot, script: Script | None) -> Any:
    """Answer what is there: a task, a function, a class. Raises whatever the import raises."""
    if script is not None and spot.module in (MAIN, SCRIPT):
        module = _script_module(script)
    else:
        module = import_module(spot.module)
    return _at(module, spot.path)


def bare(thing: Any) -> Any:
    """Answer the function of a task: under its own name a module holds the task that it became."""
    return thing.function if is_task(thing) else thing


def is_task(thing: Any) -> bool:
    """Whether this is a task of an app, told by its type's home: this layer knows no tasks."""
    return any(kind.__module__ == "leasemq.task" for kind in type(thing).__mro__)


def _spot(thing: Any) -> Spot | None:
    """Answer where this very thing stands, if it stands there."""
    module = sys.modules.get(getattr(thing, "__module__", None) or "")
    path = getattr(thing, "__qualname__", "")
    if module is None:
        return None
    if bare(_at(module, path)) is not thing:
        names = [name for name, value in vars(module).items() if bare(value) is thing]
        if not names:
            return None
        path = names[0]
    return Spot(module.__name__, path)


def _at(module: ModuleType, path: str) -> Any:
    thing: Any = module
    for name in path.split("."):
        thing = getattr(thing, name, None)
    return thing


def _classes(routine: Routine, given: Any, of: str = "its retry policy") -> list[Spot]:
    spots = []
    for one in given if isinstance(given, tuple) else (given,):
        spot = _spot(one)
        if spot is None:
            raise InvalidSetting(
                f"task {shown(routine.name)} has executor='process', but a child process cannot import "
                f"{one.__qualname__!r} of {of}; define the class at the top level of a module"
            )
        spots.append(spot)
    return spots


def _script(routine: Routine) -> Script:
    main = sys.modules[MAIN]
    file = getattr(main, "__file__", None)
    if file is None or not Path(file).is_file():
        raise InvalidSetting(
            f"task {shown(routine.name)} has executor='process', but was typed into an interactive session, "
            "which a child process cannot read; put it into a file"
        )
    return Script(str(Path(file).absolute()), getattr(main, "__package__", None))


def _script_module(script: Script) -> ModuleType:
    """Run the program's file as a module, once, in the way of multiprocessing's children."""
    known = sys.modules.get(SCRIPT)
    if known is not None:
        return known
    loader = SourceFileLoader(SCRIPT, script.file)
    spec = spec_from_file_location(SCRIPT, script.file, loader=loader)
    if spec is None:
        raise ImportError(f"cannot load {script.file}")
    module = module_from_spec(spec)
    module.__package__ = script.package
    before = sys.modules[MAIN]
    sys.modules[SCRIPT] = sys.modules[MAIN] = module  # whatever names a class of it by either name finds it
    try:
        loader.exec_module(module)
    except BaseException:
        del sys.modules[SCRIPT]
        sys.modules[MAIN] = before
        raise
    return module
