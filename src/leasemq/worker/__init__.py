"""The worker: claims, runs, settles. Read `loop.py` first."""

from leasemq.worker.keeper import in_loop, in_thread
from leasemq.worker.loop import Worker
from leasemq.worker.routine import Routine
from leasemq.worker.settings import WorkerSettings

__all__ = ["Routine", "Worker", "WorkerSettings", "in_loop", "in_thread"]
