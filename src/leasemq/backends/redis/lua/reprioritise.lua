-- Changes the priority of jobs that have not started; a waiting one keeps its place among its equals.
-- Uses: prelude asked terms plain; records moves operating
-- Flags: allow-oom
-- In: priority + 100, ids
-- Out: an answer per id (see operating)
local priority, asked = whole(3, 0, 200), texts(4)
local answers = change_each(asked, function(job)
  if not has_not_started(job) then return {ILLEGAL, job.state} end
  if job.state == WAITING then unrank(job) end
  job.priority = priority
  if job.state == WAITING then rank(job) end
  save(job)
  return {DONE, job.state}
end)
finish()
return answers
