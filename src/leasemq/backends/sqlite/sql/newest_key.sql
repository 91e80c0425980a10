-- Find the newest key of any job: keys grow in order of acceptance.
-- In: none
-- Out: key; 0 if there is no job
SELECT coalesce(max(key), 0) FROM leasemq_job
