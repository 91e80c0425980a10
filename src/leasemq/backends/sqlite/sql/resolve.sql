-- Close one parent of a blocked job.
-- In: :job, :queue, :id
-- Out: nothing
DELETE FROM leasemq_parent WHERE job = :job AND queue = :queue AND id = :id
