-- Delete slips up to an instant, the longest past it first.
-- In: :queue, :until_ms, :limit
-- Out: nothing
DELETE FROM leasemq_slip
WHERE rowid IN (
    SELECT rowid FROM leasemq_slip INDEXED BY leasemq_slip_until
    WHERE queue = :queue AND until_ms <= :until_ms
    ORDER BY until_ms, rowid
    LIMIT :limit
)
