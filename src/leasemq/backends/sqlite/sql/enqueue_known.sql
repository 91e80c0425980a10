-- Find the jobs that these ids name already; an id that was merged names the job it was merged into.
-- In: :queue, :ids (a JSON array)
-- Out: the id asked for, then a job row; in no order
SELECT
    asked.value,
    j.key, j.id, j.generation, j.state, j.attempts, j.fence, j.nonce, j.lease_until_ms, j.cancel_requested,
    j.settled_by, j.replays, j.due_ms, j.frees_key, j.dependants, j.request, j.trail,
    j.noted
FROM json_each(:ids) AS asked
CROSS JOIN leasemq_job AS j
    ON j.key = coalesce(
        (SELECT a.job FROM leasemq_alias AS a WHERE a.queue = :queue AND a.id = asked.value),
        (SELECT k.key FROM leasemq_job AS k WHERE k.queue = :queue AND k.id = asked.value)
    )
