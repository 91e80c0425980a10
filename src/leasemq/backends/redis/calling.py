"""How an operation asks the store: one script, one blob of arguments in, plain values out."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from leasemq.backends.redis.arguments import arguments
from leasemq.backends.redis.connecting import Link
from leasemq.backends.redis.scripts import script
from leasemq.errors import BackendUnavailable, IndeterminateWrite


class Calls:
    """What the operations of one backend have in common. Owner: the backend."""

    def __init__(self, link: Link) -> None:
        self.link = link

    async def ask(self, name: str, queue: str, *args: object) -> Any:  # Any: read by whoever knows the script
        """Run a queue's script; `args` are what msgpack knows, and the script has them from ARGS[3] on."""
        return await self.link.call(script(name), queue, arguments(self.link.settings, *args))

    async def ask_tag(self, name: str, tag: str, *args: object) -> Any:  # Any: as above
        """Run a script of a tag of our own, with arguments packed as for a queue's."""
        return await self.link.call_tag(script(name), tag, arguments(self.link.settings, *args))


@contextmanager
def after_a_part(is_after: bool) -> Iterator[None]:
    """Tell a failure of a later part of an operation as what it is for the whole: some of it is done."""
    try:
        yield
    except BackendUnavailable as error:
        if not is_after:
            raise
        raise IndeterminateWrite(f"only a part of it may have been done: repeat it ({error})") from error
