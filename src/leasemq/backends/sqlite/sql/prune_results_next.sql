-- From now on only the record's own retention counts for these jobs.
-- In: :keys (a JSON array)
-- Out: nothing
UPDATE leasemq_job SET prune_ms = keep_until_ms WHERE key IN (SELECT value FROM json_each(:keys))
