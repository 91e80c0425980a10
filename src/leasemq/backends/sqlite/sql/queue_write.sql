-- Write a queue's books back: all that one step moved, in one update.
-- In: :key, :paused, :suspect_incarnation, :suspect_until_ms, :place, :newest_key, :event_number,
--   :event_floor, :follow_up, :accepted, :removed, :refused, :stalls, :releases, :scheduled, :waiting,
--   :active, :blocked, :completed, :failed, :cancelled, :expired
-- Out: nothing
UPDATE leasemq_queue
SET
    paused = :paused,
    suspect_incarnation = :suspect_incarnation,
    suspect_until_ms = :suspect_until_ms,
    place = :place,
    newest_key = :newest_key,
    event_number = :event_number,
    event_floor = :event_floor,
    follow_up = :follow_up,
    accepted = :accepted,
    removed = :removed,
    refused = :refused,
    stalls = :stalls,
    releases = :releases,
    scheduled = :scheduled,
    waiting = :waiting,
    active = :active,
    blocked = :blocked,
    completed = :completed,
    failed = :failed,
    cancelled = :cancelled,
    expired = :expired
WHERE key = :key
