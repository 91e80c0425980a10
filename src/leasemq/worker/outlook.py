"""What a worker knows of its queues: which may hold jobs, and when the next one is due."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from leasemq.protocol.turns import after_taking, next_queue, turns_of


@dataclass(slots=True)
class _View:
    """One queue as it was last heard of. Owned by Outlook."""

    is_ready: bool = True  # it may hold a job that can be claimed
    asked_ms: int = 0
    due_ms: int | None = None  # when a scheduled job is due
    is_closed: bool = False  # it is being asked aside


class Outlook:
    """Which queue to ask next, and when, on the worker's clock. Owner: one worker, in its loop."""

    def __init__(
        self, queues: Collection[str] | Mapping[str, int], idle_ms: int, now_ms: int, turn_ms: int
    ) -> None:
        self._turns = turns_of(queues)
        self._idle_ms = idle_ms
        self._turn_ms = turn_ms  # between two questions to queues where nothing happens
        self._turned_ms = now_ms  # when the last one was asked
        self._views = {queue: _View(asked_ms=now_ms) for queue in queues}

    def hear(self, queues: Iterable[str]) -> bool:
        """Jobs may be waiting there now. Answers whether one of the queues is this worker's."""
        heard = [self._views[queue] for queue in queues if queue in self._views]
        for view in heard:
            view.is_ready = True
        return bool(heard)

    def hear_all(self) -> None:
        """Pushes may have been lost: ask everywhere again."""
        self.hear(self._views)

    def promise(self, queue: str, now_ms: int, due_in_ms: int | None) -> None:
        """A job of this queue is due then."""
        view = self._views.get(queue)
        if view is not None and due_in_ms is not None:
            due_ms = now_ms + due_in_ms
            view.due_ms = due_ms if view.due_ms is None else min(view.due_ms, due_ms)

    def due(self, now_ms: int) -> list[str]:
        """Answer the queues with a job due by now, and expect none there until promised again."""
        found = [
            queue for queue, view in self._views.items() if view.due_ms is not None and view.due_ms <= now_ms
        ]
        for queue in found:
            self._views[queue].due_ms = None
        return found

    def next(self, now_ms: int) -> str | None:
        """Answer the queue whose turn it is, among those that may hold jobs or were not asked for long."""
        return next_queue(self._turns, self._ready(now_ms))

    def close(self, queue: str) -> None:
        """Ask there no more until it is opened again."""
        self._views[queue].is_closed = True

    def open(self, queue: str) -> None:
        """It can be asked again."""
        self._views[queue].is_closed = False

    def begin_asking(self, queue: str, now_ms: int) -> None:
        """Note that a claim is sent. What is heard from here on counts anew, however the answer turns out."""
        view = self._views[queue]
        if not view.is_ready:
            self._turned_ms = now_ms
        view.is_ready = False
        view.asked_ms = now_ms

    def took(self, queue: str, taken: int, now_ms: int, *, is_more_likely: bool) -> None:
        """Note a claim's answer."""
        view = self._views[queue]
        if taken:
            self._turns = after_taking(self._turns, {*self._ready(now_ms), queue}, queue, taken)
        if is_more_likely:
            view.is_ready = True

    def wait_ms(self, now_ms: int, *, has_room: bool) -> int:
        """Answer how long nothing needs to be asked, if nothing is heard."""
        times = [view.due_ms for view in self._views.values() if view.due_ms is not None]
        if has_room:
            times += [self._turn_at_ms(view) for view in self._views.values() if not view.is_closed]
        return max(0, min(times, default=now_ms + self._idle_ms) - now_ms)

    def _ready(self, now_ms: int) -> set[str]:
        ready = {queue for queue, view in self._views.items() if view.is_ready and not view.is_closed}
        if self._turned_ms + self._turn_ms <= now_ms:
            rest = [one for one in self._views.items() if not one[1].is_ready and not one[1].is_closed]
            ready.update(
                queue
                for queue, view in sorted(rest, key=lambda one: one[1].asked_ms)[:1]
                if self._turn_at_ms(view) <= now_ms
            )
        return ready

    def _turn_at_ms(self, view: _View) -> int:
        return max(view.asked_ms + self._idle_ms, self._turned_ms + self._turn_ms)
