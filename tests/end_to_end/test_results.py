"""Results and declared errors across processes: the one that runs a job, its child, and one that waits."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.end_to_end.place import Place
from tests.end_to_end.waiting import PATIENCE_S

pytestmark = pytest.mark.by_url

SHOP = """
import asyncio
import os

from leasemq import App

app = App(os.environ["LEASEMQ_URL"])


class Declined(Exception):
    def __init__(self, code: str) -> None:
        super().__init__("declined with " + code)
        self.code = code


@app.task(name="pay", raises=[Declined])
async def pay(card: str) -> str:
    if card == "stolen":
        raise Declined("43")
    return card


@app.task(name="pay in a child", executor="process", raises=[Declined])
def pay_in_a_child(card: str) -> str:
    raise Declined("51")


async def main() -> None:
    async with app:
        await app.worker(queues=["default"], concurrency=2).run()


if __name__ == "__main__":
    asyncio.run(main())
"""
WAITER = """
import json
import sys

import shop
from leasemq import JobFailed

told = []
for plain in json.loads(sys.argv[1]):
    try:
        told.append(shop.app.tasks[plain.pop("task")].handle(plain).result_sync(timeout=30))
    except JobFailed as failure:
        assert type(failure.error) is shop.Declined, failure.error
        told.append(failure.error.code)
print(json.dumps(told))
"""


@pytest.mark.slow
@pytest.mark.promise("P-44", "P-60", "A-1", "E-2", "E-8")
def test_a_stored_handle_gets_its_own_lifes_value_or_error_in_any_process(place: Place) -> None:
    folder: Path = place.folder
    (folder / "shop.py").write_text(SHOP)
    place.run("shop", sys.executable, str(folder / "shop.py"))
    enqueue = f"""
import json, sys
sys.path.insert(0, {str(folder)!r})
import shop
pay, child = shop.pay, shop.pay_in_a_child
handles = []
for card in ("4111", "4112", "stolen"):
    job = pay.options(id="order", reuse=["completed"]).enqueue_sync(card)
    handles.append({{**job.to_plain(), "task": "pay"}})
    if card != "stolen":
        assert job.result_sync(timeout=30) == card
handles.append({{**child.enqueue_sync("4111").to_plain(), "task": "pay in a child"}})
print(json.dumps(handles))
"""
    handles = json.loads(_python(place, enqueue))
    assert [one["generation"] for one in handles] == [1, 2, 3, 1]

    waiter = f"import sys; sys.path.insert(0, {str(folder)!r})\n{WAITER}"
    assert json.loads(_python(place, waiter, json.dumps(handles))) == ["4111", "4112", "43", "51"]


def _python(place: Place, program: str, *arguments: str) -> str:
    """Run a program in a process of its own, and answer what it prints."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program, *arguments],
        env=place.environment("program"),
        capture_output=True,
        text=True,
        timeout=PATIENCE_S * 2,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
