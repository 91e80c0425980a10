-- Give a job that has not started a newer payload.
-- In: :job, :task, :payload, :overrides, :headers
-- Out: nothing
UPDATE leasemq_body
SET task = :task, payload = :payload, overrides = :overrides, headers = :headers
WHERE job = :job
