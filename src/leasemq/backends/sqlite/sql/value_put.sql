-- Keep a value of a job: error, progress or checkpoint.
-- In: :job, :kind, :value
-- Out: nothing
INSERT INTO leasemq_value (job, kind, value) VALUES (:job, :kind, :value)
ON CONFLICT (job, kind) DO UPDATE SET value = excluded.value
