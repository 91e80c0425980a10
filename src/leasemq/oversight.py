"""What an app sees and does of the jobs that are stored: queues, workers, dead letters, any job by its id."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Iterator, Sequence
from contextlib import aclosing
from typing import Any

from leasemq.client.connection import Connections
from leasemq.errors import WorkerNotFound
from leasemq.feed import FeedPage, JobEvent, followed, paged
from leasemq.filtering import check_queues
from leasemq.job import Job, Reading
from leasemq.option_checks import Named
from leasemq.protocol.envelope import describe_result
from leasemq.protocol.failure import ErrorRecord
from leasemq.protocol.insight import JobRecord, WorkerInfo
from leasemq.protocol.metrics import Metrics, measured
from leasemq.protocol.names import check_job_id, check_queue, shown
from leasemq.queue import Queue
from leasemq.settings import DEFAULT_QUEUE
from leasemq.task import Task


class Oversight:
    """The operator's side of an app. Owner: the App, which is one."""

    _connections: Connections
    _known_as: dict[str, Task[Any, Any]]

    def queue(self, name: str = DEFAULT_QUEUE) -> Queue:
        """Answer the operator's side of a queue. Raises: InvalidQueueName."""
        return Queue(name=check_queue(name), _connections=self._connections)

    async def queues(self) -> Sequence[str]:
        """Answer the names of all queues that ever accepted a job, or are paused."""
        return await (await self._connections.here()).backend.queues()

    async def workers(self) -> Sequence[WorkerInfo]:
        """Answer the workers that announced themselves lately."""
        return await (await self._connections.here()).backend.workers()

    async def deregister(self, worker: str) -> Sequence[WorkerInfo]:
        """Take every life of a worker off the list, by its name, or one by its incarnation; answers them.

        It is about the list alone: a worker that lives goes on working, and announces itself again within
        25 s. Stop it by a signal. One that died leaves the list by itself within 30 s.

        Raises: WorkerNotFound.
        """
        backend = (await self._connections.here()).backend
        lives = [one for one in await backend.workers() if worker in (one.worker, one.incarnation)]
        if not lives:
            raise WorkerNotFound(f"no worker {shown(worker)}: none of that name announced itself lately")
        for one in lives:
            await backend.retire(one.incarnation)
        return lives

    async def metrics(self) -> Metrics:
        """Answer every queue's counts, and how lately each live worker was heard of.

        One queue after another, each at one moment; the effort grows with queues and workers, not with jobs.
        """
        backend = (await self._connections.here()).backend
        counts = [await backend.counts(name) for name in await backend.queues()]
        workers = await backend.workers()
        return measured(await backend.now_ms(), counts, workers)

    def metrics_sync(self) -> Metrics:
        """See `metrics`."""
        return self._connections.call(self.metrics, "app.metrics()")

    def queues_sync(self) -> Sequence[str]:
        """See `queues`."""
        return self._connections.call(self.queues, "app.queues()")

    def workers_sync(self) -> Sequence[WorkerInfo]:
        """See `workers`."""
        return self._connections.call(self.workers, "app.workers()")

    def deregister_sync(self, worker: str) -> Sequence[WorkerInfo]:
        """See `deregister`."""
        return self._connections.call(lambda: self.deregister(worker), "app.deregister(...)")

    def job(self, queue: str, id_: str, *, generation: int | None = None) -> Job[Any]:
        """Answer a handle on any job; nothing is read. Raises: InvalidQueueName, InvalidJobId.

        A result of a task that this app does not know comes back as plain data, secrets masked.
        """
        return Job(
            queue=check_queue(queue),
            id=check_job_id(id_),
            generation=generation,
            _connections=self._connections,
            _reading=Reading(value=self._value, error=self._error),
        )

    def _value(self, name: str, result: bytes, job: str) -> Any:
        task = self._known_as.get(name)
        if task is None:
            return describe_result(result, job=job)
        return task.signature.decode_result(result, job=job)

    def _error(self, name: str, stored: ErrorRecord) -> Exception | None:
        task = self._known_as.get(name)
        return None if task is None else task.policy.raises.rebuilt(stored)

    async def events(
        self, cursor: str | None = None, queues: Iterable[str] = ()
    ) -> AsyncGenerator[JobEvent, None]:
        """Answer what happens to all jobs, as it happens, for ever; those of one job in their order.

        Survives an outage of the backend: goes on from where it was.

        Args:
            cursor: goes on after the event that had it, in this process or another; None begins now,
                `leasemq.feed.EARLIEST` with the earliest that is kept.
            queues: only of these; none given: of all, also of queues that appear later.

        Raises: InvalidCursor, InvalidQueueName, InvalidSetting; CursorExpired if events after the cursor, or
            after the reader who fell behind, were trimmed: `earliest` goes on with what is left.
        """
        names = check_queues(queues)
        events = followed(await self._connections.here(), cursor, names)
        async with aclosing(events):
            async for event in events:
                yield event

    async def events_page(
        self, cursor: str | None = None, queues: Iterable[str] = (), *, limit: int = 100
    ) -> FeedPage:
        """Answer up to `limit` events (1 to 1,000) that are there by now, and the cursor to go on from.

        For readers that look from time to time; see `events` for `cursor` and `queues`. None as the cursor
        answers no events, but where to begin.

        Raises: InvalidCursor, InvalidQueueName, InvalidSetting, CursorExpired.
        """
        names = check_queues(queues)
        return await paged(await self._connections.here(), cursor, names, limit)

    def events_sync(self, cursor: str | None = None, queues: Iterable[str] = ()) -> Iterator[JobEvent]:
        """See `events`; it begins when the first event is asked for."""
        return self._connections.iterate(lambda: self.events(cursor, queues), "app.events()", at_once=1)

    def events_page_sync(
        self, cursor: str | None = None, queues: Iterable[str] = (), *, limit: int = 100
    ) -> FeedPage:
        """See `events_page`."""
        return self._connections.call(
            lambda: self.events_page(cursor, queues, limit=limit), "app.events_page()"
        )

    async def dead(self, *queues: str) -> AsyncGenerator[JobRecord, None]:
        """Answer the dead letters of these queues, or of all, newest first in each."""
        for name in queues or await self.queues():
            async for record in self.queue(name).every_dead():
                yield record

    async def replay(self, job: Named) -> None:
        """Run a dead or cancelled job again. Raises: JobNotFound, IllegalMove, UniqueConflict."""
        await self.queue(job.queue).replay(job.id)

    def dead_sync(self, *queues: str) -> Iterator[JobRecord]:
        """See `dead`."""
        return self._connections.iterate(lambda: self.dead(*queues), "app.dead()")

    def replay_sync(self, job: Named) -> None:
        """See `replay`."""
        self._connections.call(lambda: self.replay(job), "app.replay(...)")
