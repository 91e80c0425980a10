-- Lets this queue be claimed from again, and wakes whoever listens.
-- Uses: prelude asked
-- Flags: allow-oom
-- In: nothing
-- Out: 1
if booked('paused') ~= 0 then amend('paused', 0) end
wake()
finish()
return 1
