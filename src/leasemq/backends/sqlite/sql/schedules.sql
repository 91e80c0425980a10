-- Read all schedules.
-- In: :namespace
-- Out: name, queue, spec, cursor_ms, paused; by name
SELECT name, queue, spec, cursor_ms, paused FROM leasemq_schedule WHERE namespace = :namespace ORDER BY name
