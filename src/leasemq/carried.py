"""Context variables that travel with a job, from where it is enqueued to where its function runs."""

from __future__ import annotations

from collections.abc import Iterable
from contextvars import Context, ContextVar, copy_context
from typing import Any

from leasemq.errors import CorruptRecord, InvalidSetting
from leasemq.protocol.envelope import decode_plain, encode_plain, place_of
from leasemq.protocol.names import shown

LIMIT_BYTES = 8 * 1024  # of all values of one job together
LONGEST_NAME = 100
_WHAT = "carried context"
_UNSET = object()


class Carried:
    """The variables of one app, each under the name that it travels by. Owner: the App.

    A name that the reading app does not know is ignored, so that producers and workers can change
    at different times.
    """

    def __init__(self) -> None:
        self._variables: dict[str, ContextVar[Any]] = {}

    @property
    def variables(self) -> frozenset[ContextVar[Any]]:
        """Which variables travel."""
        return frozenset(self._variables.values())

    def add(self, variable: ContextVar[Any], name: str | None = None) -> None:
        """Let a variable travel. Raises: InvalidSetting."""
        if not isinstance(variable, ContextVar):
            raise InvalidSetting(f"{variable!r} is not a ContextVar; carry() takes one")
        chosen = variable.name if name is None else name
        is_text = type(chosen) is str
        if not (is_text and chosen.isprintable() and 0 < len(chosen) <= LONGEST_NAME):
            raise InvalidSetting(f"name={chosen!r} is not 1 to {LONGEST_NAME} printable characters")
        if self._variables.setdefault(chosen, variable) is not variable:
            raise InvalidSetting(
                f"the name {shown(chosen)!r} is taken by another variable; say carry(variable, name=...)"
            )

    def collect(self) -> bytes:
        """Answer what the variables hold here; a variable without a value stays behind.

        Raises: PayloadRejected for what is not plain data, PayloadTooLarge.
        """
        if not self._variables:
            return b""
        held = {name: variable.get(_UNSET) for name, variable in self._variables.items()}
        values = {name: value for name, value in held.items() if value is not _UNSET}
        return encode_plain(values, LIMIT_BYTES, what=_WHAT) if values else b""

    def restore(self, stored: bytes, *, job: str = "") -> None:
        """Set the variables in the running context to what `collect` found.

        Raises: UnknownEnvelope (a newer version), CorruptRecord.
        """
        if not stored or not self._variables:
            return
        values = decode_plain(stored, what=_WHAT, job=job)
        if not isinstance(values, dict):
            raise CorruptRecord(f"{place_of(_WHAT, job)} is no map of names to values")
        for name, variable in self._variables.items():
            if name in values:
                variable.set(values[name])


def context_without(variables: Iterable[ContextVar[Any]]) -> Context:
    """Answer a copy of the running context in which these variables have no value.

    Whoever starts a worker may have a tenant of his own set; no job may run under that one.
    """
    left_out = set(variables)
    here = copy_context()
    if left_out.isdisjoint(here):
        return here
    context = Context()
    for variable, value in here.items():
        if variable not in left_out:
            context.run(variable.set, value)
    return context
