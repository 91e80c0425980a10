-- Add an entry to a job's trail under the next number.
-- In: :job, :at_ms, :attempt, :kind, :state, :value
-- Out: nothing
INSERT INTO leasemq_trail (job, number, at_ms, attempt, kind, state, value)
SELECT :job, coalesce(max(number), 0) + 1, :at_ms, :attempt, :kind, :state, :value
FROM leasemq_trail
WHERE job = :job
