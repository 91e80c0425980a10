-- Stops claims of this queue.
-- Uses: prelude asked
-- Flags: allow-oom
-- In: nothing
-- Out: 1
amend('paused', 1)
finish()
return 1
