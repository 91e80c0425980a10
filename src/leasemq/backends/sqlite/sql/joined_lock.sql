-- Take the write lock, before anything is read: a statement that writes takes it whatever rows it finds.
-- In: none
-- Out: nothing

DELETE FROM leasemq_queue WHERE key = NULL
