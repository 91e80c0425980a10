"""Bounded maintenance that any process may run at any time, beside any other: there is no leader."""

from leasemq.maintenance.followups import follow_up
from leasemq.maintenance.sweep import Chore, Sweep, Swept

__all__ = ["Chore", "Sweep", "Swept", "follow_up"]
