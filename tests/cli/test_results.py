"""What the command line shows of where a job is from, and of an error that its task declares."""

from __future__ import annotations

import asyncio
import json

import pytest

from leasemq import App
from leasemq.context import running_job
from leasemq.protocol.model import Ref
from tests.cli.conftest import Command

AT = "--url=sqlite:///jobs.db"


class Declined(Exception):
    def __init__(self, code: str, tries: int) -> None:
        super().__init__(f"declined with {code}")
        self.code = code
        self.tries = tries


@pytest.mark.promise("E-2", "E-47", "A-45")
def test_a_job_is_shown_with_its_creator_and_the_values_of_its_error(leasemq: Command) -> None:
    app = App("sqlite:///jobs.db?sync=normal")

    @app.task(name="pay", raises=[Declined])
    async def pay(code: str) -> None:
        raise Declined(code, 3)

    async def main() -> None:
        async with app:
            worker = app.worker()
            running = asyncio.ensure_future(worker.run())
            token = running_job.set(Ref(queue="orders", id="order-7", generation=2))
            job = await pay.options(id="paid").enqueue("51")
            running_job.reset(token)
            with pytest.raises(Exception, match="declined with 51"):
                await job.result(timeout=10)
            worker.stop()
            await running

    asyncio.run(main())
    job = json.loads(leasemq("job", "paid", AT, "--json").out)

    assert job["creator"] == {"queue": "orders", "id": "order-7", "generation": 2}
    values = {"args": [], "kwargs": {"code": "51", "tries": 3}}
    assert job["error"]["values"] == values
    assert job["history"][0]["error"]["values"] == values
    assert "declined with 51" in leasemq("job", "paid", AT).out
