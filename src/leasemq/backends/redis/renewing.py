"""Renewal, for the keeper's thread, on a connection of its own. See `leasemq.backend.Renewer`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from leasemq.backends.redis.arguments import arguments
from leasemq.backends.redis.blocking import BlockingCaller
from leasemq.backends.redis.layout import short
from leasemq.backends.redis.scripts import script
from leasemq.backends.redis.settings import Settings
from leasemq.errors import CorruptRecord
from leasemq.protocol.model import Fence, Renewal

_RENEW: Final = script("renew")
_ANSWERS: Final = (Renewal.HELD, Renewal.CANCEL_REQUESTED, Renewal.LOST)


class RedisRenewer:
    """See `leasemq.backend.Renewer`. Owner: the keeper's thread."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._caller = BlockingCaller(settings)

    def renew(self, queue: str, held: Sequence[tuple[str, Fence]], lease_ms: int) -> Sequence[Renewal]:
        """See `Renewer.renew`."""
        leases = [(short(id_), fence.number, short(fence.nonce)) for id_, fence in held]
        reply = self._caller.call(_RENEW, queue, arguments(self._settings, leases, lease_ms))
        if not isinstance(reply, list) or len(reply) != len(held):
            raise CorruptRecord(f"renew answered {reply!r:.100} for {len(held)} leases of {queue!r}")
        return tuple(_renewal(answer) for answer in reply)

    def close(self) -> None:
        """See `Renewer.close`."""
        self._caller.close()


def _renewal(answer: object) -> Renewal:
    """Answer what became of a lease; of a job that cannot be read nobody holds one, and the others go on."""
    return _ANSWERS[answer - 1] if isinstance(answer, int) and answer > 0 else Renewal.LOST
