-- Read a queue's books.
-- In: :namespace, :name
-- Out: key, paused, suspect_incarnation, suspect_until_ms, place, newest_key, event_number, event_floor,
--   follow_up, accepted, removed, refused, stalls, releases, and the eight counts
SELECT
    key, paused, suspect_incarnation, suspect_until_ms, place, newest_key, event_number, event_floor,
    follow_up, accepted, removed, refused, stalls, releases,
    scheduled, waiting, active, blocked, completed, failed, cancelled, expired
FROM leasemq_queue
WHERE namespace = :namespace AND name = :name
