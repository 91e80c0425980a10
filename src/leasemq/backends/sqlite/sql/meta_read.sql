-- Read which version the store has.
-- In: none
-- Out: value
SELECT value FROM leasemq_meta WHERE name = 'schema'
