"""A backend in front of the real one that holds or kills its own process around one chosen write.

Which one says the environment (`E2E_HOOK`, JSON): so that a test can place a fault exactly, with no hook
in the product and no timing. The fault happens once in all processes: a marker file counts. A process
that is held stands still in the thread that was about to write, until the test lets it go on; meanwhile
the test can freeze it.
"""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from leasemq.backend import Backend, Renewer
from leasemq.protocol.model import Claimant, Claimed, Fence, Note, Noted, Renewal, Settled, Settlement
from tests.end_to_end.ledger import Scribe

VARIABLE = "E2E_HOOK"
KILL = "kill"
HOLD = "hold"
GO_ON = "go-on"
LOOK_EVERY_S = 0.002


@dataclass(frozen=True, slots=True, kw_only=True)
class Hook:
    """Where the fault is: `write` is claim, renew, an outcome or a kind of note; of one job."""

    write: str
    job: str
    when: str  # before, after
    fault: str  # kill, hold
    marker: str

    def to_text(self) -> str:
        """As the environment carries it."""
        return json.dumps(asdict(self))

    @classmethod
    def from_text(cls, text: str) -> Hook:
        """As the environment carried it."""
        return cls(**json.loads(text))

    def strike(self, scribe: Scribe, write: str, jobs: Sequence[str], when: str) -> None:
        """Do it, if this is the place and nobody did before."""
        if (write, when) != (self.write, self.when) or self.job not in jobs:
            return
        try:
            Path(self.marker).touch(exist_ok=False)
        except FileExistsError:
            return
        scribe.write("struck", job=self.job, write=write)
        if self.fault == KILL:
            os.kill(os.getpid(), signal.SIGKILL)
        pause = threading.Event()
        while not Path(f"{self.marker}-{GO_ON}").exists():
            pause.wait(LOOK_EVERY_S)


class Hooked:
    """Passes everything on, and looks at claims, settlements, notes and renewals on the way."""

    def __init__(self, behind: Backend, hook: Hook, scribe: Scribe) -> None:
        self._behind = behind
        self._hook = hook
        self._scribe = scribe

    def __getattr__(self, name: str) -> Any:  # the rest of the contract
        return getattr(self._behind, name)

    async def claim(self, queue: str, limit: int, lease_ms: int, claimant: Claimant) -> Claimed:
        """See `Backend.claim`."""
        claimed = await self._behind.claim(queue, limit, lease_ms, claimant)
        self._strike("claim", [lease.ref.id for lease in claimed.leases], "after")
        return claimed

    async def settle(self, queue: str, settlements: Sequence[Settlement]) -> Sequence[Settled]:
        """See `Backend.settle`."""
        for one in settlements:
            self._strike(one.outcome.value, [one.job_id], "before")
        answers = await self._behind.settle(queue, settlements)
        for one in settlements:
            self._strike(one.outcome.value, [one.job_id], "after")
        return answers

    async def note(self, queue: str, notes: Sequence[Note]) -> Sequence[Noted]:
        """See `Backend.note`."""
        for one in notes:
            self._strike(one.kind.value, [one.job_id], "before")
        return await self._behind.note(queue, notes)

    def renewer(self) -> Renewer:
        """See `Backend.renewer`."""
        return _HookedRenewer(self._behind.renewer(), self._strike)

    def _strike(self, write: str, jobs: Sequence[str], when: str) -> None:
        self._hook.strike(self._scribe, write, jobs, when)


class _HookedRenewer:
    def __init__(self, behind: Renewer, strike: Any) -> None:
        self._behind = behind
        self._strike = strike

    def renew(self, queue: str, held: Sequence[tuple[str, Fence]], lease_ms: int) -> Sequence[Renewal]:
        self._strike("renew", [job for job, _ in held], "before")
        return self._behind.renew(queue, held, lease_ms)

    def close(self) -> None:
        self._behind.close()
