"""A web application that hands slow work to a worker: one plain ASGI callable, no framework.

`POST /reports/2026-11` answers 202 and the job's id at once; `GET /reports/ID` answers 200 and the report, or
202 while it is made. The app is open for as long as the application lives. With a framework that takes a
lifespan, `app.lifespan` does that: `Starlette(lifespan=app.lifespan)`, `FastAPI(lifespan=app.lifespan)`.

Serve `web_app:application` with any ASGI server, and run `leasemq worker web_app:app` beside it. Run as a
script, it plays both, and asks for one report:

    python web_app.py
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

from leasemq import App, JobNotFound, WaitTimeout

Message = dict[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

app = App("sqlite:///web_app.db")


@app.task(name="make_report", queue="reports", timeout=60)
async def make_report(month: str) -> dict[str, int]:
    return {"orders": 12, "pages": len(month)}


# ---- the web application


async def application(scope: Message, receive: Receive, send: Send) -> None:
    if scope["type"] == "lifespan":
        await live(receive, send)
        return
    match scope["method"], scope["path"].strip("/").split("/"):
        case "POST", ["reports", month]:
            job = await make_report.options(id=f"report-{month}").enqueue(month)
            await answer(send, 202, {"job": job.id, "created": job.created})
        case "GET", ["reports", id_]:
            await answer(send, *await looked_at(id_))
        case _:
            await answer(send, 404, {"error": "no such page"})


async def live(receive: Receive, send: Send) -> None:
    """Keep the app open between start-up and shutdown, which is when this is called."""
    await receive()
    async with app:
        await send({"type": "lifespan.startup.complete"})
        await receive()
    await send({"type": "lifespan.shutdown.complete"})


async def looked_at(id_: str) -> tuple[int, Any]:
    job = make_report.job(id_)
    try:
        return 200, await job.result(timeout=0)  # 0: look, and do not wait
    except WaitTimeout:
        return 202, {"state": await job.state()}
    except JobNotFound:
        return 404, {"error": "no such report"}


async def answer(send: Send, status: int, value: object) -> None:
    headers = [(b"content-type", b"application/json")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": json.dumps(value).encode()})


# ---- what an ASGI server does, for one visitor


async def requested(method: str, path: str) -> tuple[int, Any]:
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": b""}

    async def send(message: Message) -> None:
        sent.append(message)

    await application({"type": "http", "method": method, "path": path}, receive, send)
    start, body = sent
    return start["status"], json.loads(body["body"])


async def visit() -> None:
    for path in ("/reports/2026-11", "/reports/2026-11", "/elsewhere"):
        print("POST", path, *await requested("POST", path))
    print("GET ", "/reports/never-asked-for", *await requested("GET", "/reports/never-asked-for"))
    worker = app.worker()
    async with asyncio.TaskGroup() as group:
        group.create_task(worker.run())
        await make_report.job("report-2026-11").result(timeout=30)
        print("GET ", "/reports/report-2026-11", *await requested("GET", "/reports/report-2026-11"))
        worker.stop()


async def main() -> None:
    to_application: asyncio.Queue[Message] = asyncio.Queue()
    from_application: asyncio.Queue[Message] = asyncio.Queue()
    async with asyncio.TaskGroup() as group:
        group.create_task(application({"type": "lifespan"}, to_application.get, from_application.put))
        await to_application.put({"type": "lifespan.startup"})
        await from_application.get()
        await visit()
        await to_application.put({"type": "lifespan.shutdown"})
        await from_application.get()


if __name__ == "__main__":
    asyncio.run(main())
