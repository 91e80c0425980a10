-- Read the rows of events after a number.
-- In: :queue, :after, :limit
-- Out: first_number, at_ms, entries; oldest first
SELECT first_number, at_ms, entries
FROM leasemq_event
WHERE queue = :queue AND last_number > :after
ORDER BY last_number
LIMIT :limit
