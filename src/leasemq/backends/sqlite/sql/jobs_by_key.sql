-- Read what a change of state is decided from, whatever the id is.
-- In: :keys (a JSON array)
-- Out: job rows, in the order asked
SELECT
    j.key, j.id, j.generation, j.state, j.attempts, j.fence, j.nonce, j.lease_until_ms, j.cancel_requested,
    j.settled_by, j.replays, j.due_ms, j.frees_key, j.dependants, j.request, j.trail,
    j.noted
FROM json_each(:keys) AS asked
CROSS JOIN leasemq_job AS j ON j.key = asked.value
