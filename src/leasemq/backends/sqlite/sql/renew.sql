-- Push a lease's deadline, while its fence is the newest and the job is active.
-- In: :lease_until_ms, :now_ms, :key, :fence, :nonce
-- Out: nothing
UPDATE leasemq_job
SET lease_until_ms = :lease_until_ms, renewed_ms = :now_ms
WHERE key = :key AND state = 'active' AND fence = :fence AND nonce = :nonce
