-- Forget that an id was merged into another job.
-- In: :queue, :id
-- Out: nothing
DELETE FROM leasemq_alias WHERE queue = :queue AND id = :id
