"""An ordinary script: no event loop of its own, a plain function as the task, a worker in another process.

Every call that is awaited elsewhere has a twin whose name ends in `_sync`.

    python sync_script.py
"""

from __future__ import annotations

import os
import subprocess
import sys

from leasemq import App

app = App("sqlite:///sync_script.db")


@app.task(name="count_words", queue="text")
def count_words(text: str) -> int:
    return len(text.split())


def start_worker() -> subprocess.Popen[bytes]:
    """Start what you would type in another terminal: leasemq worker sync_script:app"""
    command = [sys.executable, "-m", "leasemq", "worker", "sync_script:app", "--log-level", "WARNING"]
    return subprocess.Popen(command, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})


def main() -> None:
    texts = ["to be or not to be", "all the world's a stage", "brevity is the soul of wit"]
    jobs = count_words.enqueue_many_sync((text,) for text in texts)
    worker = start_worker()
    try:
        for text, job in zip(texts, jobs, strict=True):
            print(f"{job.result_sync(timeout=60)} words: {text}")
    finally:
        worker.terminate()  # it finishes what it runs, and ends
        worker.wait()


if __name__ == "__main__":
    main()
