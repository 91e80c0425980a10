-- Makes scheduled jobs waiting now.
-- Uses: prelude asked terms plain; records moves operating
-- Flags: allow-oom
-- In: ids
-- Out: an answer per id (see operating)
local answers = change_each(texts(3), function(job)
  return job.state == SCHEDULED and reschedule(job, NOW) or {ILLEGAL, job.state}
end)
finish()
return answers
