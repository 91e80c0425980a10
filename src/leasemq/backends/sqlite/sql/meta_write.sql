-- Write which version the store has.
-- In: :version
-- Out: nothing
INSERT INTO leasemq_meta (name, value) VALUES ('schema', :version)
ON CONFLICT (name) DO UPDATE SET value = excluded.value
