-- Move a schedule's cursor, unless it is paused or somebody else moved it.
-- In: :namespace, :name, :seen_cursor_ms, :new_cursor_ms
-- Out: the queue, if it was moved
UPDATE leasemq_schedule
SET cursor_ms = :new_cursor_ms
WHERE namespace = :namespace AND name = :name AND paused = 0 AND cursor_ms = :seen_cursor_ms
RETURNING queue
