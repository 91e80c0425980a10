-- Find the newest key of any job, and whether the queue has results that outlived their record.
-- In: :queue
-- Out: key, which grows in order of acceptance (0 if there is no job); 1 if there are slips, else 0
SELECT
    (SELECT coalesce(max(key), 0) FROM leasemq_job),
    EXISTS (SELECT 1 FROM leasemq_slip INDEXED BY leasemq_slip_until WHERE queue = :queue)
