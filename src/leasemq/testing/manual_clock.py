"""A clock that a test moves by hand."""

from __future__ import annotations

NEW_YEAR_2026_MS = 1_767_225_600_000


class ManualClock:
    """A store's clock that moves only when told. Owned by the test; read by every backend of the store."""

    def __init__(self, start_ms: int = NEW_YEAR_2026_MS) -> None:
        self._now_ms = start_ms

    def __call__(self) -> int:
        """Answer the time, ms since the epoch."""
        return self._now_ms

    def advance(self, by_ms: int) -> None:
        """Let time pass."""
        assert by_ms >= 0, f"time does not pass backwards, got {by_ms} ms; use step"
        self._now_ms += by_ms

    def step(self, by_ms: int) -> None:
        """Set the clock forwards or back, as an operator or a time server does."""
        self._now_ms += by_ms
