-- Delete the slips of a queue beyond a number, the first to lapse first. New rowids are above all others,
-- so mostly their span tells that there are not so many, and nothing is counted.
-- In: :queue, :newest, :limit
-- Out: nothing
DELETE FROM leasemq_slip
WHERE rowid IN (
    SELECT rowid FROM leasemq_slip INDEXED BY leasemq_slip_until
    WHERE queue = :queue
    ORDER BY until_ms, rowid
    LIMIT CASE
        WHEN (SELECT max(rowid) FROM leasemq_slip) - (SELECT min(rowid) FROM leasemq_slip) < :newest THEN 0
        ELSE max(0, min(:limit, (
            SELECT count(*) FROM leasemq_slip INDEXED BY leasemq_slip_until WHERE queue = :queue
        ) - :newest))
    END
)
