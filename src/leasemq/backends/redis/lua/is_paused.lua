-- Answers whether this queue is paused.
-- Uses: prelude asked
-- Flags: no-writes
-- In: nothing
-- Out: 0 or 1
return booked('paused')
