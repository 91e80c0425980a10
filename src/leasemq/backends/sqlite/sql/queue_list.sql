-- List the queues that ever accepted a job, or are paused.
-- In: :namespace
-- Out: name; sorted by bytes
SELECT name FROM leasemq_queue WHERE namespace = :namespace AND (accepted > 0 OR paused) ORDER BY name
