-- Delete the results of these jobs; from now on only the record's own retention counts.
-- In: :keys (a JSON array)
-- Out: nothing
UPDATE leasemq_job
SET result = NULL, prune_ms = keep_until_ms
WHERE key IN (SELECT value FROM json_each(:keys))
