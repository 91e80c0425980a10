"""The words that say what a unique key does."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from leasemq import App, Unique
from leasemq.errors import InvalidName, InvalidSetting
from leasemq.protocol import model
from leasemq.protocol.model import UniqueMode, UniqueUntil


@pytest.mark.promise("P-41")
@pytest.mark.parametrize("window", [1.5, timedelta(milliseconds=1_500)])
async def test_plain_texts_and_seconds_are_stored_as_modes_and_milliseconds(app: App, window: Any) -> None:
    task = app.task(name="t")(noop)
    unique = Unique(key="k", mode="replace", until="start", window=window)
    async with app:
        record = await (await task.options(unique=unique).enqueue()).record()
        assert record.unique is not None
        stored = record.unique
        assert (stored.mode, stored.until, stored.window_ms) == (
            UniqueMode.REPLACE,
            UniqueUntil.START,
            1_500,
        )


@pytest.mark.promise("P-41")
async def test_a_plain_text_mode_does_what_the_mode_does(app: App) -> None:
    task = app.task(name="t")(noop)
    async with app:
        first = await task.options(unique=Unique(key="k", mode="throttle", window=60)).enqueue()
        await app.queue().remove(first.id)
        second = await task.options(unique=Unique(key="k", mode="throttle", window=60)).enqueue()
        assert (second.id, second.created) == (first.id, False)


@pytest.mark.promise("P-41")
@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"mode": "skipp"}, "mode='skipp' is not one of skip, replace, debounce, throttle"),
        ({"mode": None}, "mode=None is not one of"),
        ({"until": "never"}, "until='never' is not one of start, end"),
        ({"window": 0}, "window=0 "),
        ({"window": -1}, "window=-1 "),
        ({"mode": "debounce"}, "needs a window"),
        ({"mode": UniqueMode.THROTTLE}, "needs a window"),
        ({"at_most": 60}, "at_most=60 bounds a debounce"),
        ({"mode": "debounce", "window": 5, "at_most": 0}, "at_most=0 "),
        ({"mode": "debounce", "window": 5, "at_most": 4}, "at_most=4 is shorter than window=5"),
    ],
)
def test_a_wrong_word_is_refused_where_it_is_written(words: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidSetting, match=said):
        Unique(key="k", **words)


def test_a_key_that_is_no_name_and_an_option_that_is_no_key_are_refused() -> None:
    with pytest.raises(InvalidName):
        Unique(key="")
    task = App("memory://").task(name="t")(noop)
    for wrong in (7, model.Unique(key="k")):
        with pytest.raises(InvalidSetting, match=r"neither a text nor a leasemq\.Unique"):
            task.options(unique=wrong)  # type: ignore[arg-type]  # that it is neither is the point


@pytest.mark.promise("P-41", "A-6")
@pytest.mark.parametrize("mode", ["skip", "replace", "debounce", "throttle"])
async def test_a_hundred_calls_at_once_under_one_key_all_end_and_leave_one_job(app: App, mode: Any) -> None:
    task = app.task(name="t", unique=Unique(key="k", mode=mode, window=60))(noop)
    async with app:
        alone = [task.enqueue() for _ in range(50)]
        many = [task.enqueue_many([()] * 5) for _ in range(10)]
        one_by_one, batches = await asyncio.gather(asyncio.gather(*alone), asyncio.gather(*many))
        jobs = [*one_by_one, *(job for batch in batches for job in batch)]
        assert (len(jobs), [job.created for job in jobs].count(True)) == (100, 1)
        assert len({job.id for job in jobs}) == 1
        assert (await app.queue().counts()).accepted == 1


def noop() -> None: ...
