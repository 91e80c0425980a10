-- Read the slips of these lives of ids; generation 0 stands for the newest that is to be kept.
-- In: :queue, :lives (a JSON array of pairs of id and generation), :now_ms
-- Out: the place of the life asked for, then id, generation, task, result, until_ms; in no order
SELECT asked.key, s.id, s.generation, s.task, s.result, s.until_ms
FROM json_each(:lives) AS asked
CROSS JOIN leasemq_slip AS s
    ON s.queue = :queue
    AND s.id = json_extract(asked.value, '$[0]')
    AND s.generation = coalesce(
        nullif(json_extract(asked.value, '$[1]'), 0),
        (
            SELECT max(n.generation) FROM leasemq_slip AS n
            WHERE
                n.queue = :queue
                AND n.id = json_extract(asked.value, '$[0]')
                AND n.until_ms > :now_ms
        )
    )
WHERE s.until_ms > :now_ms
