"""Making way: a process runs empty for a job whose next stall would be its last, so that it runs alone."""

from __future__ import annotations

from leasemq.events import MakingWay
from leasemq.worker.aside import take_late
from leasemq.worker.crew import Crew


async def make_way(crew: Crew) -> str | None:
    """Let the process run empty for the suspect that waits; answers its queue, to be claimed from now.

    None: another process took it, or this one stops. The backend's word that this process is the one to
    make way holds for a lease, so it is asked again each third of one.
    """
    queue, keep_ms = crew.suspect_queue, crew.claim_lease_ms // 3
    asked_ms = crew.clock()
    if queue is not None and crew.attempts.running:
        crew.herald.tell(MakingWay(queue=queue, running=crew.attempts.running))
    while crew.attempts.held or crew.company.has_others_busy(crew.member):
        crew.company.reserve(crew.member)
        await crew.attention(max(1, asked_ms + keep_ms - crew.clock()))
        take_late(crew)
        if crew.stopping.is_set():
            break
        if queue is None or crew.clock() - asked_ms < keep_ms:
            continue
        asked_ms = crew.clock()
        answered = await crew.claims.claim(queue, 0, takes_suspect=False)
        if answered is None or not answered.claimed.suspect_waits:
            queue = None
            break
    crew.suspect_queue = None
    if queue is None or crew.stopping.is_set():
        crew.company.open(crew.member)
        return None
    return queue
