-- Read entries of a job's trail after a number.
-- In: :job, :after, :limit
-- Out: number, at_ms, attempt, kind, state, value; oldest first
SELECT number, at_ms, attempt, kind, state, value
FROM leasemq_trail
WHERE job = :job AND number > :after
ORDER BY number
LIMIT :limit
