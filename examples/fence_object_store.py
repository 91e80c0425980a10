"""An object store whose readers never see what a stale attempt wrote.

Each attempt writes an object of its own, whose name carries the fence. A pointer names the newest one; it
keeps the fence, and is moved by a conditional write (`If-Match` and `If-None-Match` in S3, a generation in
others). Readers follow the pointer.

    python fence_object_store.py
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path

from leasemq import App, Ctx, LeaseLost, State
from leasemq.testing import Crash, Harness

# ---- the store: files in a folder


class FileStore:
    """What of an object store is needed here. The lock stands for what the store does in one step."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = threading.Lock()

    def get(self, name: str) -> tuple[bytes, str] | None:
        """Answer an object and its ETag."""
        file = self._folder / name
        if not file.exists():
            return None
        value = file.read_bytes()
        return value, hashlib.sha256(value).hexdigest()

    def put(self, name: str, value: bytes) -> None:
        (self._folder / name).write_bytes(value)

    def put_if(self, name: str, value: bytes, seen_etag: str | None) -> bool:
        """Write if the object is still the one that was seen; None: if there is none. False is HTTP's 412."""
        with self._lock:
            found = self.get(name)
            if (None if found is None else found[1]) != seen_etag:
                return False
            self.put(name, value)
            return True


def point(store: FileStore, name: str, fence: int) -> None:
    """Let readers of `name` see what the attempt with this fence wrote. Raises: LeaseLost."""
    target = json.dumps({"fence": fence, "object": f"{name}.{fence}"}).encode()
    while True:
        found = store.get(name)
        newest = 0 if found is None else int(json.loads(found[0])["fence"])
        if fence < newest:
            raise LeaseLost(f"a newer attempt has written {name}")
        if store.put_if(name, target, None if found is None else found[1]):
            return


def read(store: FileStore, name: str) -> str:
    pointer = store.get(name)
    assert pointer is not None
    found = store.get(json.loads(pointer[0])["object"])
    assert found is not None
    return found[0].decode()


# ---- the job

app = App("sqlite:///jobs.db")
frozen: list[Callable[[], None]] = []


@app.task(name="render")
async def render(ctx: Ctx, folder: str, name: str) -> None:
    """Enqueued with the object's name as its id: one job per pointer, so that its fences compare."""
    store, fence = FileStore(Path(folder)), ctx.fence
    store.put(f"{name}.{fence}", f"drawn by attempt {ctx.attempt}".encode())
    if ctx.attempt == 1:  # its machine freezes right here, and points when it thaws
        frozen.append(lambda: point(store, name, fence))
    else:
        point(store, name, fence)


async def play(folder: Path) -> None:
    store = FileStore(folder)
    async with Harness(app) as jobs:
        job = await render.options(id="logo").enqueue(str(folder), "logo")
        jobs.crash_worker(Crash.AFTER_FUNCTION)  # frozen or dead: to everybody else it is the same
        await jobs.advance(minutes=2)  # the lease ends, and another worker runs the job again
        assert await job.state() is State.COMPLETED
    try:
        frozen[0]()
    except LeaseLost as refusal:
        print(f"refused: {refusal}")
    assert read(store, "logo") == "drawn by attempt 2", "a stale write was accepted"
    print(f"logo: {read(store, 'logo')}")

    # What goes wrong where jobs A and B share a pointer: A began before B and is not stale at all, but has
    # the smaller number.
    store.put("banner.7", b"from A")
    store.put("banner.8", b"from B")
    point(store, "banner", 8)
    try:
        point(store, "banner", 7)
    except LeaseLost:
        print("A was refused though nobody else ever had its lease: B's number was larger")
    assert read(store, "banner") == "from B"


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        await play(Path(folder))


if __name__ == "__main__":
    asyncio.run(main())
