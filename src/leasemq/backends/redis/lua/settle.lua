-- Ends attempts; each is compared and written in this step.
-- Uses: prelude asked records moves settling
-- Flags: allow-oom
-- In: items (see settling)
-- Out: an answer per item
local answers = settle(endings(3))
finish()
return answers
