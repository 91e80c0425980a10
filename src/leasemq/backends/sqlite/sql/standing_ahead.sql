-- Count the jobs that a claim takes before this waiting one: those of its lane with a higher priority, or
-- the same and an earlier place. In two parts, so that each reads no more of the index than it counts.
-- In: :job, :now_ms, :limit
-- Out: how many, at most the limit
SELECT count(*)
FROM (
    SELECT 1
    FROM (SELECT queue, suspect, priority FROM leasemq_job WHERE key = :job) AS me
    CROSS JOIN leasemq_job AS higher INDEXED BY leasemq_job_ready
        ON
            higher.queue = me.queue
            AND higher.suspect = me.suspect
            AND higher.priority > me.priority
            AND higher.state = 'waiting'
            AND (higher.expires_ms IS NULL OR higher.expires_ms > :now_ms)
    UNION ALL
    SELECT 1
    FROM (SELECT queue, suspect, priority, place FROM leasemq_job WHERE key = :job) AS me
    CROSS JOIN leasemq_job AS earlier INDEXED BY leasemq_job_ready
        ON
            earlier.queue = me.queue
            AND earlier.suspect = me.suspect
            AND earlier.priority = me.priority
            AND earlier.place < me.place
            AND earlier.state = 'waiting'
            AND (earlier.expires_ms IS NULL OR earlier.expires_ms > :now_ms)
    LIMIT :limit
)
