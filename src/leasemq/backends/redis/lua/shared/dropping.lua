-- How jobs are deleted on an operator's word: no result of any life of their ids stays.
local function is_in_place(job) -- whether what is left of a record that cannot be read says where it lies
  return job.state and job.state >= 1 and job.state <= 8 and ids_of({job.number})[1] == job.id
end

local function drop_all(job) -- WRITES: deletes a job that was read, readable or not; whether it was counted
  local is_counted = not job.corrupt or is_in_place(job)
  if is_counted then drop(job) end
  if job.corrupt then forget_keys(job.id) end
  forget_slips(job.id)
  return is_counted
end

-- WRITES: deletes what a lane of a state has under these numbers; `out` takes an entry out of the lane whose
-- job is gone, moved on, or cannot be read.
local function drop_listed(numbers, state, out)
  for at, id in ipairs(ids_of(numbers)) do
    local job = id and read(id)
    local is_here = job and job.number == numbers[at] and job.state == state
    if is_here then
      drop_all(job)
    else
      out(at)
      if job and job.corrupt then
        forget_keys(id)
        forget_slips(id)
      end
      if not job or job.corrupt then lose(numbers[at], state) end
    end
  end
end
