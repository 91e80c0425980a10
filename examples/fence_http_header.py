"""A service, called over HTTP, that refuses a stale attempt.

The client sends the job and its fence in two headers. The service keeps the newest fence of each job,
compares before it does anything, and answers 409 to an older one. It compares and writes under one lock,
as it would in one transaction.

    python fence_http_header.py
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import quote

from leasemq import App, Ctx, LeaseLost, State
from leasemq.testing import Crash, Harness

JOB_HEADER = "X-LeaseMQ-Job"
FENCE_HEADER = "X-LeaseMQ-Fence"
CONFLICT = 409


# ---- the service


newest_fence: dict[str, int] = {}  # by job
texts: dict[str, str] = {}  # by path
lock = threading.Lock()


class Pages(BaseHTTPRequestHandler):
    """Answers `PUT /pages/NAME`."""

    def do_PUT(self) -> None:
        text = self.rfile.read(int(self.headers["Content-Length"])).decode()
        job, fence = self.headers[JOB_HEADER], int(self.headers[FENCE_HEADER])
        with lock:
            is_stale = fence < newest_fence.get(job, 0)
            if not is_stale:
                newest_fence[job] = fence
                texts[self.path] = text
        self.send_response(CONFLICT if is_stale else 204)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@contextmanager
def serving() -> Generator[int, None, None]:
    """Run the service, and answer its port."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Pages) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()


# ---- the job

app = App("sqlite:///jobs.db")
frozen: list[Callable[[], None]] = []


def put(port: int, page: str, text: str, job: str, fence: int) -> None:
    """Send the page. Raises: LeaseLost if the service has seen a newer attempt of this job."""
    connection = HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request("PUT", f"/pages/{page}", text, {JOB_HEADER: job, FENCE_HEADER: str(fence)})
    status = connection.getresponse().status
    connection.close()
    if status == CONFLICT:
        raise LeaseLost(f"a newer attempt of {job} has written {page}")


@app.task(name="publish")
def publish(ctx: Ctx, port: int, page: str) -> None:
    text, fence = f"by attempt {ctx.attempt}", ctx.fence
    job = quote(f"{ctx.queue}/{ctx.job_id}")  # an id may be any text, a header may not
    if ctx.attempt == 1:  # its machine freezes right here, and sends when it thaws
        frozen.append(lambda: put(port, page, text, job, fence))
    else:
        put(port, page, text, job, fence)


async def main() -> None:
    with serving() as port:
        async with Harness(app) as jobs:
            job = await publish.enqueue(port, "home")
            jobs.crash_worker(Crash.AFTER_FUNCTION)  # frozen or dead: to everybody else it is the same
            await jobs.advance(minutes=2)  # the lease ends, and another worker runs the job again
            assert await job.state() is State.COMPLETED
        try:
            await asyncio.to_thread(frozen[0])
        except LeaseLost as refusal:
            print(f"refused: {refusal}")
        assert texts["/pages/home"] == "by attempt 2", "a stale write was accepted"
        print(f"home: {texts['/pages/home']}")

        # What goes wrong where the service keeps one fence for a page, whoever writes it: job A began before
        # job B and is not stale at all, but has the smaller number.
        await asyncio.to_thread(put, port, "news", "from B", "whoever", 8)
        try:
            await asyncio.to_thread(put, port, "news", "from A", "whoever", 7)
        except LeaseLost:
            print("A was refused though nobody else ever had its lease: B's number was larger")
        assert texts["/pages/news"] == "from B"
        # With the job as the key both are written, in the order in which they came.
        await asyncio.to_thread(put, port, "news", "from B", "default/B", 8)
        await asyncio.to_thread(put, port, "news", "from A", "default/A", 7)
        assert texts["/pages/news"] == "from A"


if __name__ == "__main__":
    asyncio.run(main())
