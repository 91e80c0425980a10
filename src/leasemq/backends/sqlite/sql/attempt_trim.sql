-- Forget all but the newest attempts in these jobs' history.
-- In: :keys (a JSON array), :keep
-- Out: nothing
DELETE FROM leasemq_attempt
WHERE
    job IN (SELECT value FROM json_each(:keys))
    AND fence < (
        SELECT kept.fence
        FROM leasemq_attempt AS kept
        WHERE kept.job = leasemq_attempt.job
        ORDER BY kept.fence DESC
        LIMIT 1 OFFSET :keep - 1
    )
