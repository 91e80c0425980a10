-- Tell a parent of a dependant; a repeat changes nothing.
-- In: :job, :queue, :id, :generation, :on_failure
-- Out: nothing
INSERT INTO leasemq_dependant (job, number, queue, id, generation, on_failure)
SELECT
    :job,
    (SELECT coalesce(max(d.number), 0) + 1 FROM leasemq_dependant AS d WHERE d.job = :job),
    :queue, :id, :generation, :on_failure
WHERE
    NOT EXISTS (
        SELECT 1
        FROM leasemq_dependant AS d
        WHERE d.job = :job AND d.queue = :queue AND d.id = :id AND d.generation = :generation
    )
