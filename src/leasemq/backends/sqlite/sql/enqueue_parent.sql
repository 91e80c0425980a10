-- Store a parent that a job waits for.
-- In: :job, :number, :queue, :id, :on_failure
-- Out: nothing
INSERT INTO leasemq_parent (job, number, queue, id, on_failure)
VALUES (:job, :number, :queue, :id, :on_failure)
