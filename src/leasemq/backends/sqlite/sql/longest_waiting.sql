-- Find since when the job that waits longest has waited: the first of each lane, lane by lane.
-- Text and blobs, which sort after every number, tell no time.
-- In: :queue
-- Out: since_ms
WITH RECURSIVE lane (suspect, priority) AS (
    SELECT * FROM (
        SELECT suspect, priority
        FROM leasemq_job INDEXED BY leasemq_job_ready
        WHERE queue = :queue AND state = 'waiting'
        ORDER BY suspect, priority DESC
        LIMIT 1
    )
    UNION ALL
    SELECT
        CASE
            WHEN
                EXISTS (
                    SELECT 1
                    FROM leasemq_job AS s
                    WHERE
                        s.queue = :queue
                        AND s.state = 'waiting'
                        AND s.suspect = lane.suspect
                        AND s.priority < lane.priority
                )
                THEN lane.suspect
            ELSE lane.suspect + 1
        END,
        coalesce(
            (
                SELECT max(s.priority)
                FROM leasemq_job AS s
                WHERE
                    s.queue = :queue
                    AND s.state = 'waiting'
                    AND s.suspect = lane.suspect
                    AND s.priority < lane.priority
            ),
            (
                SELECT max(s.priority)
                FROM leasemq_job AS s
                WHERE s.queue = :queue AND s.state = 'waiting' AND s.suspect = lane.suspect + 1
            )
        )
    FROM lane
    WHERE lane.priority IS NOT NULL AND lane.suspect <= 1
)
SELECT CAST(first.since_ms AS INTEGER)
FROM lane
JOIN leasemq_job AS first
    ON first.key = (
        SELECT j.key
        FROM leasemq_job AS j
        WHERE
            j.queue = :queue
            AND j.state = 'waiting'
            AND j.suspect = lane.suspect
            AND j.priority = lane.priority
        ORDER BY j.place
        LIMIT 1
    )
WHERE first.since_ms < ''
ORDER BY first.place
LIMIT 1
