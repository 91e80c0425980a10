-- Read what a queue's listeners look at first.
-- In: :namespace, :name
-- Out: key, how many jobs wait or will, resumes, event_number
SELECT key, waiting + scheduled, resumes, event_number
FROM leasemq_queue
WHERE namespace = :namespace AND name = :name
