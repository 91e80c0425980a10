"""What is registered on an app holds for the workers that it makes."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from leasemq import App, Ctx
from leasemq.errors import HookFailed, InvalidSetting

pytestmark = pytest.mark.promise("A-42")


async def worked(app: App, task: Any) -> tuple[Any, int]:
    """The task's value, and the exit code of the worker that ran it."""
    async with app:
        worker = app.worker()
        running = asyncio.ensure_future(worker.run())
        value = await (await task.enqueue()).result(timeout=20)
        worker.stop()
        return value, await running


async def test_hooks_middleware_and_dependencies_of_an_app_reach_its_workers(app: App) -> None:
    told: list[str] = []
    first = app.on_start(lambda: told.append("start"))
    app.on_stop(lambda: told.append("last"))
    app.on_stop(lambda: told.append("stop"))
    assert callable(first)

    @app.dependency(scope="worker")
    async def pool() -> AsyncIterator[str]:
        yield "pool"
        told.append("pool closed")

    async def fake() -> AsyncIterator[str]:
        yield "fake"

    @app.middleware
    async def loud(ctx: Ctx, call_next: Callable[[], Awaitable[Any]]) -> Any:
        return f"{await call_next()}!"

    @app.task(name="t")
    async def t(ctx: Ctx) -> str:
        return await ctx.use(pool)

    assert await worked(app, t) == ("pool!", 0)
    assert told == ["start", "pool closed", "stop", "last"]
    with app.override(pool, fake):
        assert await worked(app, t) == ("fake!", 0)
    assert await worked(app, t) == ("pool!", 0)


async def test_what_was_registered_by_mistake_is_refused_there(app: App) -> None:
    with pytest.raises(InvalidSetting, match="takes no parameter"):
        app.on_start(lambda app: None)  # type: ignore[misc, arg-type]  # the mistake is the point
    with pytest.raises(InvalidSetting, match="not an async function"):
        app.middleware(lambda ctx, call_next: call_next())
    with pytest.raises(InvalidSetting, match="scope='request'"):
        app.dependency(scope="request")(worked)  # type: ignore[arg-type]  # the mistake is the point


async def test_a_start_hook_that_raises_reaches_whoever_runs_the_worker(app: App) -> None:
    @app.on_start
    async def connect() -> None:
        raise OSError("no route")

    async with app:
        with pytest.raises(HookFailed, match=r"test_hooks\..*connect raised OSError: no route"):
            await app.worker().run()


def test_the_command_ends_with_an_error_that_names_the_start_hook(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(
        """
from leasemq import App
app = App("sqlite:///jobs.db")

@app.on_start
def connect() -> None:
    raise OSError("no route")
"""
    )
    ended = subprocess.run(
        [sys.executable, "-m", "leasemq", "worker", "shop:app"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert ended.returncode == 1
    assert "the start hook shop.connect raised OSError: no route" in ended.stderr
    assert "Traceback" not in ended.stderr
