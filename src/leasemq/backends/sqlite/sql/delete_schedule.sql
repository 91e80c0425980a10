-- Delete a schedule.
-- In: :namespace, :name
-- Out: nothing
DELETE FROM leasemq_schedule WHERE namespace = :namespace AND name = :name
