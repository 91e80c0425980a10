-- Tell whether this settlement ended an earlier attempt that is kept.
-- In: :job, :settled_by
-- Out: one row if so
SELECT 1 FROM leasemq_attempt WHERE job = :job AND settled_by = :settled_by LIMIT 1
