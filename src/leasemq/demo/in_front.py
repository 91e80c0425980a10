"""What may stand between a demo's worker and its backend: nothing that is in the product."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from leasemq.backend import Backend
from leasemq.clock import boot_ms
from leasemq.demo.ledger import Ledger
from leasemq.protocol.model import Settled, Settlement

_LOOK_EVERY_S = 0.002
_LONGEST_MS = 60_000


class InFront:
    """Passes every operation on to the backend behind; those who want another one redefine it."""

    def __init__(self, behind: Backend) -> None:
        self._behind = behind

    def __getattr__(self, name: str) -> Any:  # whatever the contract has, with its own type
        return getattr(self._behind, name)


class WorstMoment(InFront):
    """Holds a worker at the worst moment to be frozen: a job is done, its result is about to be sent.

    The file `wanted` names the jobs that are fit for it. The process that manages to rename it to `held`
    stays where it is until that is taken away; its heartbeats, in a thread of their own, go on meanwhile.
    """

    def __init__(self, behind: Backend, wanted: Path, ledger: Ledger) -> None:
        super().__init__(behind)
        self._wanted = wanted
        self._ledger = ledger
        self._pause = threading.Event()  # never set: waited on instead of sleeping

    async def settle(self, queue: str, settlements: Sequence[Settlement]) -> Sequence[Settled]:
        """See `Backend.settle`; it may take as long as the process is held and frozen."""
        chosen = self._chosen(settlements)
        if chosen is None:
            return await self._behind.settle(queue, settlements)
        run = {"job": chosen.job_id, "fence": chosen.fence.number}
        self._hold(run)
        answers = await self._behind.settle(queue, settlements)
        self._ledger.write("reported", **run, answer=answers[settlements.index(chosen)].value)
        return answers

    def _chosen(self, settlements: Sequence[Settlement]) -> Settlement | None:
        try:
            wanted = self._wanted.read_text(encoding="utf-8").split()
            found = [settlement for settlement in settlements if settlement.job_id in wanted]
            if found:
                self._wanted.rename(held(self._wanted))
        except FileNotFoundError:  # nobody is to be held, or another process was faster
            return None
        return found[0] if found else None

    def _hold(self, run: dict[str, object]) -> None:
        """Stand still: in the event loop's thread, where the write would be sent from."""
        self._ledger.write("holding", **run)
        until_ms = boot_ms() + _LONGEST_MS
        while held(self._wanted).exists() and boot_ms() < until_ms:
            self._pause.wait(_LOOK_EVERY_S)


def held(wanted: Path) -> Path:
    """The name of the file while a process is held."""
    return wanted.with_suffix(".held")
