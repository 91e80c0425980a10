"""How a worker is, as plain values that any thread may ask for, also while the loop does not turn."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Phase(StrEnum):
    """Where in its life a worker is."""

    STARTING = "starting"  # no claim was sent yet
    CLAIMING = "claiming"
    DRAINING = "draining"  # told to stop


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """One look at a worker. `held`: leases not settled yet, those of running functions included."""

    phase: Phase
    slots: int
    lease_ms: int
    running: int = 0
    held: int = 0
    stuck: int = 0  # slots taken by functions that outlast their time-out and do not end
    is_connected: bool = True  # every loop's last request to the backend was answered
    keeper_silent_ms: int = 0  # since the keeper last looked for leases to renew
