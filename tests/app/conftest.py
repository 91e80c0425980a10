"""An app on each backend, and an unopened one for what needs no backend."""

from __future__ import annotations

from pathlib import Path

import pytest

from leasemq import App
from tests.app.holder import Holder


@pytest.fixture(params=["memory", "sqlite"])
def backend_name(request: pytest.FixtureRequest) -> str:
    """Which backend the test runs on."""
    return str(request.param)


@pytest.fixture
def url(backend_name: str, tmp_path: Path) -> str:
    """A fresh store of that backend."""
    return "memory://" if backend_name == "memory" else f"sqlite:///{tmp_path}/jobs.db"


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
