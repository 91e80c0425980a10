"""What a caller's session is: whether it suspends, and which driver's connection is behind it.

SQLAlchemy's kinds are known by where their classes come from; it is imported only when one of them is given.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from leasemq.errors import BackendUnavailable, InvalidSession

T = TypeVar("T")
Translate = Callable[[BaseException], Exception | None]

REMEDY = "pass the driver's own connection, or SQLAlchemy's connection or session"


def is_of_sqlalchemy(session: object) -> bool:
    """Whether this is an object of SQLAlchemy, or of a class derived from one of its."""
    return any(kind.__module__.partition(".")[0] == "sqlalchemy" for kind in type(session).__mro__)


def of_scope(session: Any) -> Any:
    """Answer the session of the calling thread or task where a scoped one is given, else what is given."""
    return session() if hasattr(session, "registry") else session


def suspends(session: object) -> bool:
    """Whether an object of SQLAlchemy is one of its asynchronous kinds."""
    return any(kind.__module__.startswith("sqlalchemy.ext.asyncio") for kind in type(session).__mro__)


def run_sync_of(session: Any) -> Any:
    """Answer the `run_sync` of an asynchronous connection or session. Raises: InvalidSession."""
    session = of_scope(session)
    if not hasattr(session, "run_sync") or not hasattr(session, "commit"):
        raise InvalidSession(f"{kind_of(session)} holds no transaction; {REMEDY}")
    return session.run_sync


def joined_connection(session: Any) -> Any:
    """Answer what the pool gave to a synchronous connection or session, whose transaction is begun.

    As any statement on it does: its owner commits or rolls back. Raises: InvalidSession.
    """
    session = of_scope(session)
    if not (hasattr(session, "in_transaction") and hasattr(session, "commit")):
        raise InvalidSession(f"{kind_of(session)} holds no transaction; {REMEDY}")
    with understood(session):
        connection = session if hasattr(session, "exec_driver_sql") else session.connection()
        if not connection.in_transaction():
            connection.begin()
        return connection.connection


@contextmanager
def understood(session: object, translate: Translate | None = None) -> Iterator[None]:
    """Tell SQLAlchemy's errors as ours: the driver's by `translate`, its own as the session's fault."""
    from sqlalchemy.exc import SQLAlchemyError

    try:
        yield
    except SQLAlchemyError as error:
        cause: BaseException | None = getattr(error, "orig", None)
        told = None if cause is None or translate is None else translate(cause)
        if told is not None:
            raise told from error
        if cause is not None:
            raise BackendUnavailable(f"the database refused the session's statement: {cause}") from error
        raise InvalidSession(f"{kind_of(session)} cannot take the job: {error}") from error


def kind_of(session: object) -> str:
    """Answer what to call an object in an error."""
    kind = type(session)
    return f"{kind.__module__}.{kind.__qualname__}"


def run_through(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that never suspends, here and now."""
    try:
        work.send(None)
    except StopIteration as done:
        answer: T = done.value
        return answer
    work.close()
    raise AssertionError(f"{work!r} suspended, although its session blocks")
