"""An app on each backend, and an unopened one for what needs no backend."""

from __future__ import annotations

from pathlib import Path

import pytest

from leasemq import App
from tests.app.holder import Holder
from tests.servers.stores import SERVED, ServedStore, chosen, fresh_url


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run each test that needs a backend on each of them."""
    marks = metafunc.definition.iter_markers("parametrize")
    if "backend_name" not in metafunc.fixturenames or any(mark.args[0] == "backend_name" for mark in marks):
        return
    is_local = metafunc.definition.get_closest_marker("local") is not None
    names = chosen(besides=SERVED if is_local else ())
    metafunc.parametrize("backend_name", names, indirect=True, scope="function")


@pytest.fixture
def backend_name(request: pytest.FixtureRequest) -> str:
    """Which backend the test runs on."""
    return str(request.param)


@pytest.fixture
def url(backend_name: str, served: ServedStore | None, tmp_path: Path) -> str:
    """A fresh store of that backend."""
    return fresh_url(backend_name, tmp_path) if served is None else served.url


@pytest.fixture(autouse=True)
def no_settings_from_outside(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Neither this machine's environment nor this project's pyproject.toml reaches a test."""
    for name in ("URL", "APP", "NAMESPACE", "QUEUES", "CONCURRENCY", "LEASE"):
        monkeypatch.delenv(f"LEASEMQ_{name}", raising=False)
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def app(url: str) -> App:
    """An app on the backend; not open yet."""
    return App(url)


@pytest.fixture
def holder(app: App) -> Holder:
    """Somebody who claims the app's jobs and ends them as told, in place of a worker."""
    return Holder(app)
