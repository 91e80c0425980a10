"""The small numbers that stand for words in the store: their places in the contract's own lists, from 1."""

from __future__ import annotations

from collections.abc import Iterable

from leasemq.protocol.insight import EventKind
from leasemq.protocol.model import Acceptance, Outcome, Settled, State

STATES = dict(enumerate(State, start=1))
STATE_CODES = {state: code for code, state in STATES.items()}
OUTCOMES = dict(enumerate(Outcome, start=1))
OUTCOME_CODES = {outcome: code for code, outcome in OUTCOMES.items()}
KINDS = dict(enumerate(EventKind, start=1))
KIND_CODES = {kind: code for code, kind in KINDS.items()}
ACCEPTANCES = dict(enumerate(Acceptance, start=1))
ANSWERS = dict(enumerate(Settled, start=1))


def state_bits(states: Iterable[State]) -> int:
    """Answer a set of states as a number: bit n is set for the state of code n."""
    return sum(1 << STATE_CODES[state] for state in states)
