"""What an app wants done in the worker's loop before its first claim, and after its last settlement."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from leasemq.errors import HookFailed
from leasemq.worker.cancellation import is_from_outside

logger = logging.getLogger("leasemq")

FAILED = 1  # the exit code of a worker that ended well, but for a stop hook
STOP_HOOK_S = 5.0  # for one stop hook to end
HURRY_S = 0.2  # for all of them, once the worker is told to hurry

Work = Callable[[], Coroutine[Any, Any, int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Hook:
    """One function, async or not; an error of it is told under its name."""

    name: str
    call: Callable[[], Any]
    within_s: float = STOP_HOOK_S  # to end in, at the stop
    is_own: bool = False  # the worker's, and not the app's

    async def run(self, within_s: float | None = None) -> BaseException | None:
        """Call it, await what it answers if that can be awaited, and answer what was raised."""
        try:
            async with asyncio.timeout(within_s):
                answer = self.call()
                if inspect.isawaitable(answer):
                    await answer
        except BaseException as error:  # code of the user's: even SystemExit must not end the loop
            if is_from_outside(error):
                raise
            return error
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Hooks:
    """Hooks by moment; those of the start run in their order, those of the stop in reverse."""

    start: tuple[Hook, ...] = ()
    stop: tuple[Hook, ...] = ()

    async def around(self, work: Work, stopping: asyncio.Event, hurry: asyncio.Event) -> int:
        """Run the start hooks, the work, and then the stop hooks, whatever came of the others.

        A stop while the start hooks run cancels them, and the work then ends at its first look.

        Raises: HookFailed if a start hook raised: nothing was claimed.
        """
        if not self.start and not self.stop:
            return await work()
        is_clean = True
        try:
            if self.start:
                await _until(stopping, self._start())
            code = await work()
        finally:
            if self.stop:
                is_clean = await self._end(hurry)
        return code if is_clean else code or FAILED

    async def _start(self) -> None:
        for hook in self.start:
            error = await hook.run()
            if error is not None:
                raise HookFailed(
                    f"the start hook {hook.name} raised {type(error).__name__}: {error}; nothing was claimed"
                ) from error

    async def _end(self, hurry: asyncio.Event) -> bool:
        """Run the stop hooks, and answer whether all of them ended well."""
        failed: list[str] = []
        done: list[str] = []
        within_s = sum(hook.within_s + HURRY_S for hook in self.stop)
        await _until(hurry, self._stop(done, failed), within_s, HURRY_S)
        left = [hook.name for hook in reversed(self.stop)][len(done) :]
        if left:
            logger.error("stop hooks that were not finished: %s", ", ".join(left))
        return not (failed or left)

    async def _stop(self, done: list[str], failed: list[str]) -> None:
        for hook in reversed(self.stop):
            error = await hook.run(hook.within_s)
            if error is not None:
                logger.error("the stop hook %s failed", hook.name, exc_info=error)
                failed.append(hook.name)
            done.append(hook.name)


async def _until(
    end: asyncio.Event, work: Coroutine[Any, Any, None], within_s: float | None = None, grace_s: float = 0
) -> None:
    """Run the work until it ends, or until `end` is set (and a grace has passed) or its time is up.

    What is not over is cancelled, and left behind if it refuses: a TaskGroup would wait for it for ever.
    """
    running = asyncio.create_task(work)
    ending = asyncio.create_task(end.wait())
    try:
        await asyncio.wait({running, ending}, timeout=within_s, return_when=asyncio.FIRST_COMPLETED)
        if not running.done() and grace_s:
            await asyncio.wait({running}, timeout=grace_s)
    finally:
        ending.cancel()
        if running.cancel():
            await asyncio.wait({running}, timeout=HURRY_S)
    if running.done() and not running.cancelled():
        running.result()


NO_HOOKS = Hooks()
