-- Give a job that has not started a newer payload, if the unique key is its own.
-- In: :job, :unique_key, :task, :payload, :overrides, :headers
-- Out: nothing
UPDATE leasemq_body
SET task = :task, payload = :payload, overrides = :overrides, headers = :headers
WHERE job = :job AND unique_key = :unique_key
