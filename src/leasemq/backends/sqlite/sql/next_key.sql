-- Find the key of the next job: keys grow in order of acceptance.
-- In: none
-- Out: key
SELECT coalesce(max(key), 0) + 1 FROM leasemq_job
