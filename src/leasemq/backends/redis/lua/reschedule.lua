-- Makes scheduled or waiting jobs due at an instant, or now if that is past.
-- Uses: prelude asked terms plain; records moves operating
-- Flags: allow-oom
-- In: delay_ms, due_at_ms or -1, ids
-- Out: an answer per id (see operating)
local delay_ms, due_at_ms, asked = whole(3, -2 ^ 53), whole(4, -1), texts(5)
local due = math.min(math.max(NOW, due_at_ms >= 0 and due_at_ms or NOW + delay_ms), 2 ^ 53)
local answers = change_each(asked, function(job)
  return reschedule(job, due)
end)
finish()
return answers
