-- Write the events of one step as one row.
-- In: :queue, :last_number, :first_number, :at_ms, :entries
-- Out: nothing
INSERT INTO leasemq_event (queue, last_number, first_number, at_ms, entries)
VALUES (:queue, :last_number, :first_number, :at_ms, :entries)
