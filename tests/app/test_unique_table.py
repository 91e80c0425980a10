"""What an enqueue answers whose key is held: each cell of the table in docs/unique.md, as a user meets it."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pytest

import leasemq.backends.sqlite  # noqa: F401  reads files when first imported, which must not be in a loop
from leasemq import App, Job, Retry, Unique
from leasemq.testing import Harness
from tests.app.holder import Holder

pytestmark = pytest.mark.local

PAGE = Path(__file__).parents[2] / "docs" / "unique.md"
WINDOW_S = 60
Mode = Literal["skip", "replace", "debounce", "throttle"]
MODES: tuple[Mode, ...] = ("skip", "replace", "debounce", "throttle")


@dataclass
class Scene:
    """A task with a unique key, and what has run of it. Owned by one test."""

    app: App
    jobs: Harness
    ran: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        @self.app.task(name="t", retry=Retry(1, delays=[3_600], jitter="none"))
        async def task(text: str) -> None:
            self.ran.append(text)
            if "fails" in text and self.ran.count(text) == 1:
                raise RuntimeError(text)

        self.task = task
        self.holder = Holder(self.app)

    async def add(self, text: str, unique: Unique, **options: Any) -> Job[None]:
        """Enqueue, at once due unless the options say otherwise."""
        return await self.task.options(**{"delay": 0, "unique": unique, **options}).enqueue(text)


Moment = Callable[[Scene, Unique], Awaitable[None]]


async def _nobody(scene: Scene, unique: Unique) -> None: ...


async def _scheduled(scene: Scene, unique: Unique) -> None:
    await scene.add("first", unique, delay=10)


async def _waiting(scene: Scene, unique: Unique) -> None:
    await scene.add("first", unique)


async def _running(scene: Scene, unique: Unique) -> None:
    await scene.add("first", unique)
    assert len(await scene.holder.claim()) == 1


async def _retried(scene: Scene, unique: Unique) -> None:
    await scene.add("first fails", unique)
    assert (await scene.jobs.run_until_idle()).outcomes == {"retried": 1}


async def _completed(scene: Scene, unique: Unique) -> None:
    await scene.add("first", unique)
    assert (await scene.jobs.run_until_idle()).outcomes == {"completed": 1}


async def _failed(scene: Scene, unique: Unique) -> None:
    await scene.add("first fails", unique, retry=Retry(0))
    assert (await scene.jobs.run_until_idle()).outcomes == {"failed": 1}


async def _cancelled(scene: Scene, unique: Unique) -> None:
    await (await scene.add("first", unique)).cancel()


async def _removed(scene: Scene, unique: Unique) -> None:
    await scene.app.queue().remove((await scene.add("first", unique)).id)


async def _long_ago(scene: Scene, unique: Unique) -> None:
    await scene.add("first", unique, delay=3_600)
    await scene.jobs.advance(WINDOW_S)


MOMENTS: dict[str, Moment] = {
    "there is none": _nobody,
    "is scheduled": _scheduled,
    "is waiting": _waiting,
    "is running": _running,
    "waits for its retry": _retried,
    "has completed": _completed,
    "has failed": _failed,
    "was cancelled": _cancelled,
    "was removed": _removed,
    "took it longer ago than `window`": _long_ago,
}


def _table() -> dict[str, list[str]]:
    """The cells of the page's table, by its first column."""
    rows = re.findall(r"^\| (.+?) \|(.*)\|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    cells = {first: [cell.strip() for cell in rest.split("|")] for first, rest in rows}
    return {first: row for first, row in cells.items() if len(row) == len(MODES) and first[0] not in "-"}


TABLE = _table()
HEAD = "the holder of the key"


def test_the_table_tells_of_every_mode_and_moment() -> None:
    assert TABLE[HEAD] == [f"`{mode}`" for mode in MODES]
    told = {row.partition(",")[0] for row in TABLE} - {HEAD}
    assert told == MOMENTS.keys()
    cells = {cell for first, row in TABLE.items() if first != HEAD for cell in row}
    assert cells == {"created", "skipped", "replaced", "debounced"}


def _file(backend_name: str, folder: Path) -> Path | None:
    return None if backend_name == "memory" else folder / "harness.db"


@pytest.mark.promise("P-41", "A-6")
@pytest.mark.parametrize(("at_most_s", "runs_at_s"), [(None, 32), (20, 20)], ids=["no bound", "bounded"])
async def test_a_debounced_job_runs_once_it_is_quiet_or_at_its_bound_with_the_newest_arguments(
    url: str, backend_name: str, tmp_path: Path, at_most_s: int | None, runs_at_s: int
) -> None:
    app = App(url)
    ran: list[tuple[str, float]] = []
    unique = Unique(mode="debounce", key="k", window=5, at_most=at_most_s, until="start")
    async with Harness(app, sqlite=_file(backend_name, tmp_path)) as jobs:

        @app.task(name="t", unique=unique)
        async def task(text: str) -> None:
            ran.append((text, (jobs.now - began).total_seconds()))

        began = jobs.now
        for call in range(10):
            if ran:
                break
            answer = await task.enqueue(f"call {call}")
            assert answer.acceptance == ("debounced" if call else "created")
            await jobs.advance(3)
        await jobs.advance(minutes=1)
    assert ran == [(f"call {min(9, runs_at_s // 3)}", pytest.approx(runs_at_s, abs=0.1))]


@pytest.mark.promise("P-41", "A-6")
@pytest.mark.parametrize("row", [row for row in TABLE if row != HEAD])
async def test_the_answer_is_the_one_in_the_table(
    url: str, backend_name: str, tmp_path: Path, row: str
) -> None:
    moment = MOMENTS[row.partition(",")[0]]
    has_window = "window" in row
    for mode, told in zip(MODES, TABLE[row], strict=True):
        unique = Unique(
            key="k",
            mode=mode,
            until="start" if 'until="start"' in row else "end",
            window=WINDOW_S if has_window or mode in ("debounce", "throttle") else None,
        )
        (tmp_path / mode).mkdir()
        app = App(url)
        async with Harness(app, sqlite=_file(backend_name, tmp_path / mode)) as jobs:
            scene = Scene(app, jobs)
            await moment(scene, unique)
            before = await jobs.enqueued()

            answer = await scene.add("second", unique)

            assert answer.acceptance == told, mode
            assert answer.created == (told == "created")
            after = await jobs.enqueued()
            assert len(after) == len(before) + answer.created
            if before and not answer.created:
                assert answer.id == before[0].id
            await jobs.advance(days=1)
            is_second_run = told in ("created", "replaced", "debounced")
            assert ("second" in scene.ran) == is_second_run
            assert ("first" in scene.ran) <= (told not in ("replaced", "debounced"))
