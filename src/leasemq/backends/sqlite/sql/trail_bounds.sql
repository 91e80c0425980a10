-- Read which entries of a job's trail are kept.
-- In: :job
-- Out: the oldest and the newest number; none of either: nothing is kept
SELECT min(number), max(number) FROM leasemq_trail WHERE job = :job
