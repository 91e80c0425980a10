-- Delete some slips of a queue.
-- In: :queue, :limit
-- Out: nothing
DELETE FROM leasemq_slip
WHERE rowid IN (
    SELECT rowid FROM leasemq_slip INDEXED BY leasemq_slip_until WHERE queue = :queue LIMIT :limit
)
