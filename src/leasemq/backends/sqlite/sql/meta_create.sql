-- Make the table that says which version the store has.
-- In: none
-- Out: nothing
CREATE TABLE IF NOT EXISTS leasemq_meta (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID
