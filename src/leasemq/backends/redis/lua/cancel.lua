-- Cancels jobs: those that have not started end at once, running ones are marked.
-- Uses: prelude asked terms plain; records moves operating
-- Flags: allow-oom
-- In: generation (-1: any), ids
-- Out: an answer per id: cancelled 1, cancelling 2, finished 3, not found 4; 0: that job cannot be read
local CANCELLING, FINISHED, UNKNOWN = 2, 3, 4
local generation, asked = whole(3, -1), texts(4)

local function cancel(job)
  if generation >= 0 and job.generation ~= generation then return UNKNOWN end
  if has_not_started(job) then
    local _, record_ms = keep_of(job)
    end_job(job, CANCELLED, TOLD.cancelled, record_ms)
    return 1
  end
  if job.state ~= ACTIVE then return FINISHED end
  if not has(job.flags, CANCEL) then
    job.flags = with(job.flags, CANCEL)
    tell(job, TOLD.cancel_requested)
    save(job)
  end
  cancels[#cancels + 1] = name_of(job)
  return CANCELLING
end

local answers = {}
for at, id in ipairs(asked) do
  local job = read(id)
  if not job then
    answers[at] = UNKNOWN
  else
    answers[at] = is_broken(job) and BROKEN or cancel(job)
  end
end
finish()
return answers
