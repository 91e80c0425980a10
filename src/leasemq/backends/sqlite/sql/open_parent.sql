-- Tell whether this parent of a job is open.
-- In: :job, :queue, :id
-- Out: one row if so
SELECT 1 FROM leasemq_parent WHERE job = :job AND queue = :queue AND id = :id
