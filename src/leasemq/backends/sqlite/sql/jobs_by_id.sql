-- Read what a change of state is decided from.
-- In: :queue, :ids (a JSON array)
-- Out: job rows, in no order
SELECT
    j.key, j.id, j.generation, j.state, j.attempts, j.fence, j.nonce, j.lease_until_ms, j.cancel_requested,
    j.settled_by, j.replays, j.due_ms, j.frees_key, j.dependants, j.request, j.trail,
    j.noted
FROM json_each(:ids) AS asked
CROSS JOIN leasemq_job AS j INDEXED BY leasemq_job_id ON j.queue = :queue AND j.id = asked.value
