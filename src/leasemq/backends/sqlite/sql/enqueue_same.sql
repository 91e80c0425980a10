-- Compare a request with the job that is stored under its id.
-- In: :job, :task, :payload
-- Out: whether task and payload are the same
SELECT task = :task AND payload = :payload FROM leasemq_body WHERE job = :job
