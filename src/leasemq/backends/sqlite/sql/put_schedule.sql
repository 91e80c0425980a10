-- Create or replace a schedule; the later cursor stays.
-- In: :namespace, :name, :queue, :spec, :cursor_ms, :paused
-- Out: nothing
INSERT INTO leasemq_schedule (namespace, name, queue, spec, cursor_ms, paused)
VALUES (:namespace, :name, :queue, :spec, :cursor_ms, :paused)
ON CONFLICT (namespace, name) DO UPDATE
SET
    queue = excluded.queue,
    spec = excluded.spec,
    cursor_ms = max(leasemq_schedule.cursor_ms, excluded.cursor_ms),
    paused = excluded.paused
