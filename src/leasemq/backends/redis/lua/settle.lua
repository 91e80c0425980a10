-- Ends attempts; each is compared and written in this step.
-- Uses: prelude asked terms plain completing; records moves settling
-- Flags: allow-oom
-- In: rows (see completing)
-- Out: an answer per settlement, one byte each
local rows_in = endings(3)
local answers = settle(rows_in, nil)
if answers then
  finish()
  return answers
end
-- THE REST
answers = settle(rows_in, settle_one)
finish()
return answers
