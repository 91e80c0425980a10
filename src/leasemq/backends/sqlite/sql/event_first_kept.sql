-- Find the first events that are younger than an instant.
-- In: :queue, :at_ms
-- Out: first_number
SELECT first_number FROM leasemq_event WHERE queue = :queue AND at_ms > :at_ms ORDER BY last_number LIMIT 1
