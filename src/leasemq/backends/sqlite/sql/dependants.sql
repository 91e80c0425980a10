-- Read the jobs that wait for this one.
-- In: :job
-- Out: queue, id, generation, on_failure; in the order in which they attached
SELECT queue, id, generation, on_failure FROM leasemq_dependant WHERE job = :job ORDER BY number
