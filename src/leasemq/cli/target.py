"""Which app a command is about: `--url`, `--app`, the environment or pyproject.toml."""

from __future__ import annotations

import asyncio
import importlib
import os
import sys
import traceback
from collections.abc import Callable, Coroutine
from types import ModuleType
from typing import Any, ParamSpec, TypeVar

import click

from leasemq.app import App
from leasemq.client.schemes import checked_scheme, has_sqlite_store, sqlite_path
from leasemq.errors import InvalidSetting
from leasemq.protocol.names import mask_url, shown
from leasemq.settings import find_settings, read_project, working_folder

P = ParamSpec("P")
T = TypeVar("T")

as_json_option = click.option("--json", "as_json", is_flag=True, help="Answer in JSON.")


def target_options(command: Callable[P, T]) -> Callable[P, T]:
    """Give a command `--url`, `--app` and `--json`."""
    url = click.option("--url", metavar="URL", help="Where the jobs live, as sqlite:///jobs.db.")
    app = click.option("--app", "app_name", metavar="MODULE:APP", help="The app whose backend to use.")
    return url(app(as_json_option(command)))


def chosen_app(url: str | None, app_name: str | None) -> App:
    """Answer the app that the options name, else the one that the settings name. Raises: InvalidSetting."""
    if url is not None and app_name is not None:
        raise InvalidSetting("--url and --app both name a backend; give one of them")
    if url is not None:
        return App(url)
    if app_name is not None:
        return load_app(app_name)
    settings, _ = find_settings({}, read_project())
    if settings.url is None and settings.app is not None:
        return load_app(settings.app)
    return App()


def named_app(url: str | None, app_name: str | None) -> App:
    """See `chosen_app`. Raises: InvalidSetting also if nothing names a backend."""
    app = chosen_app(url, app_name)
    if url is app_name is app.settings.url is app.settings.app is None:
        raise InvalidSetting(
            "no backend is named: give --url sqlite:///jobs.db or --app myapp:app, set LEASEMQ_URL, "
            "or put url into [tool.leasemq] of pyproject.toml"
        )
    return app


def looked_at(url: str | None, app_name: str | None, work: Callable[[App], Coroutine[Any, Any, T]]) -> T:
    """Run a command that needs a backend which exists already, and answer what it answers."""
    app = named_app(url, app_name)
    _check_exists(app)
    return _run(app, work)


def created_at(url: str | None, app_name: str | None, work: Callable[[App], Coroutine[Any, Any, T]]) -> T:
    """Run a command that may make the store."""
    app = named_app(url, app_name)
    _check_shared(app)
    return _run(app, work)


def _run(app: App, work: Callable[[App], Coroutine[Any, Any, T]]) -> T:
    async def run() -> T:
        async with app:
            return await work(app)

    return asyncio.run(run())


def load_app(name: str) -> App:
    """Answer the App that `module:attribute` names. Raises: InvalidSetting, saying what is wrong."""
    module_name, separator, attribute = name.partition(":")
    if not (module_name and separator and attribute) or module_name.startswith("."):
        raise InvalidSetting(f"{shown(name)!r} names no app; say module:attribute, for example myapp:app")
    module = _imported(module_name)
    found: Any = module
    for part in attribute.split("."):
        found = getattr(found, part, None)
    if found is None:
        apps = [key for key, value in vars(module).items() if isinstance(value, App)]
        remedy = f"; it has the app {', '.join(apps)}" if apps else "; it has no App at all"
        raise InvalidSetting(f"module {module_name} has no {shown(attribute)!r}{remedy}")
    if not isinstance(found, App):
        raise InvalidSetting(f"{shown(name)} is of type {type(found).__name__}, not an App")
    return found


def _imported(module_name: str) -> ModuleType:
    folder = str(working_folder() or "this deleted folder")
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        return importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is not None and f"{module_name}.".startswith(f"{error.name}."):
            raise InvalidSetting(
                f"there is no module {shown(error.name)!r} in {folder} or on Python's path"
            ) from error
        raise _refusal(module_name, error) from error
    except Exception as error:  # the module is the user's code, and may raise what it likes
        raise _refusal(module_name, error) from error


def _refusal(module_name: str, error: Exception) -> InvalidSetting:
    frames = traceback.extract_tb(error.__traceback__)
    where = f" at {os.path.relpath(frames[-1].filename)}:{frames[-1].lineno}" if frames else ""
    return InvalidSetting(f"importing {shown(module_name)} raised {type(error).__name__}{where}: {error}")


def _check_shared(app: App) -> None:
    url = app.settings.url
    if url is not None and checked_scheme(url).name == "memory":
        raise click.ClickException(
            f"{mask_url(url)} lives inside one process, so no other can look into it; use a file, sqlite:///jobs.db"
        )


def _check_exists(app: App) -> None:
    """Refuse to look into what is not there: opening would create it, in another program's file too."""
    _check_shared(app)
    url = app.settings.url
    path = None if url is None else sqlite_path(url)
    if url is None or path is None:
        return
    if not os.path.exists(path):  # Path.exists() raises for a name that is too long
        raise click.ClickException(f"there is no file {shown(path)}; nothing was ever enqueued there")
    if not has_sqlite_store(url):
        raise click.ClickException(
            f"there is no LeaseMQ store in {shown(path)}; nothing was ever enqueued there"
        )
