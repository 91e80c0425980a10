"""Who else holds jobs in this process, so that a suspect runs with nothing beside it.

A worker asks before each claim. While one is alone, or lets the process run empty for a suspect, the
others in the process claim nothing; they are woken when it is over.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum


class Entry(Enum):
    """What a worker may do now."""

    ALONE = "alone"  # nothing else is held in the process: it may take a suspect
    BESIDE = "beside"  # others are held
    CLOSED = "closed"  # another worker has, or waits for, the process to itself


@dataclass(slots=True, eq=False)
class Member:
    """One worker's part. Owner: its worker; the company only reads and wakes."""

    held: Callable[[], int]
    wake: Callable[[], None]  # from any thread
    is_claiming: bool = False


class Company:
    """The workers of one process. Owner: the process; used by each worker from its own thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._members: set[Member] = set()
        self._soloist: Member | None = None

    def join(self, member: Member) -> None:
        """Count this worker in."""
        with self._lock:
            self._members.add(member)

    def quit(self, member: Member) -> None:
        """Count it out; what it still held no longer runs."""
        with self._lock:
            self._members.discard(member)
        self.open(member)

    def is_closed_to(self, member: Member) -> bool:
        """Whether another worker wants the process to itself."""
        return self._soloist not in (None, member)

    def enter(self, member: Member) -> Entry:
        """Begin a claim, and answer what may be claimed."""
        with self._lock:
            if self.is_closed_to(member):
                return Entry.CLOSED
            member.is_claiming = True
            if member.held() or self._others_are_busy(member):
                return Entry.BESIDE
            self._soloist = member
            return Entry.ALONE

    def leave(self, member: Member, *, stays_alone: bool) -> None:
        """End a claim. `stays_alone`: it took a suspect, or is to make way for one."""
        with self._lock:
            member.is_claiming = False
        if stays_alone:
            self.reserve(member)
        else:
            self.open(member)

    def reserve(self, member: Member) -> None:
        """Keep the process for this worker, unless another has it."""
        with self._lock:
            if self._soloist is None:
                self._soloist = member

    def open(self, member: Member) -> None:
        """Let the others go on, if this worker had the process to itself."""
        with self._lock:
            if self._soloist is not member:
                return
            self._soloist = None
            others = [one for one in self._members if one is not member]
        for other in others:
            other.wake()

    def has_others_busy(self, member: Member) -> bool:
        """Whether another worker of the process holds anything, or is claiming."""
        with self._lock:
            return self._others_are_busy(member)

    def tell_soloist(self) -> None:
        """Something is held no longer: whoever waits for the process to run empty looks again."""
        soloist = self._soloist
        if soloist is not None:
            soloist.wake()

    def forget_all(self) -> None:
        """In a process that was forked: none of the parent's workers runs here."""
        self._lock = threading.Lock()
        self._members = set()
        self._soloist = None

    def _others_are_busy(self, member: Member) -> bool:
        return any(one.is_claiming or one.held() for one in self._members if one is not member)


THIS_PROCESS = Company()
os.register_at_fork(after_in_child=THIS_PROCESS.forget_all)
