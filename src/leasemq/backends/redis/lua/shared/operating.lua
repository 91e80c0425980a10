-- What operators do to jobs one by one, and to a lane from its beginning.
--
-- An answer is {change, the state it was found in or 0}, and of a conflict the holder's id and generation.
local BROKEN, DONE, ILLEGAL, NOT_FOUND, CONFLICT = 0, 1, 2, 3, 4

local function is_broken(job) -- whether it cannot be read; one that was ended for that has a state again
  return job.corrupt and not has(job.flags or 0, UNREADABLE)
end

local function has_not_started(job)
  return job.state < ACTIVE or job.state == BLOCKED
end

local function change_each(asked, change) -- an answer per id, in turn: an id may be asked for twice
  local answers = {}
  for at, id in ipairs(asked) do
    local job = read(id)
    if not job then
      answers[at] = {NOT_FOUND, 0}
    elseif is_broken(job) then
      answers[at] = {BROKEN, 0}
    else
      answers[at] = change(job)
    end
  end
  return answers
end

local function reschedule(job, due) -- WRITES: makes a scheduled or waiting job due at an instant
  local found = job.state
  if found ~= SCHEDULED and found ~= WAITING then return {ILLEGAL, found} end
  if found == WAITING and due == NOW then return {DONE, found} end
  leave(job)
  job.due = due
  if due == NOW then
    place(job, WAITING, TOLD.promoted)
  else
    place(job, SCHEDULED, TOLD.rescheduled)
  end
  return {DONE, found}
end
