-- Read the rows of events after a number.
-- In: :queue, :after, :limit
-- Out: first_number, last_number, entries; oldest first
SELECT first_number, last_number, entries
FROM leasemq_event
WHERE queue = :queue AND last_number > :after
ORDER BY last_number
LIMIT :limit
