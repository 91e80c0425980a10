-- Which files the connection has open.
-- In: none
-- Out: number, name, path

PRAGMA database_list
