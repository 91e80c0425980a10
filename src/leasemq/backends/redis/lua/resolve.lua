-- Tells a blocked job that a parent no longer blocks it, or that it can never run.
-- Uses: prelude asked terms plain; records moves operating
-- Flags: allow-oom
-- In: child's id, generation, parent (as in p:<id>), passes (0, 1)
-- Out: whether anything changed (0, 1); -1: the child cannot be read
local id, generation, parent, passes = text(3), whole(4), text(5), whole(6, 0, 1)
local job = read(id)
if not job then return 0 end
if is_broken(job) then return -1 end
local key = P .. 'p:' .. id
if job.generation ~= generation or job.state ~= BLOCKED or beside('HEXISTS', key, parent) == 0 then return 0 end
run_of(job)
if job.corrupt then return -1 end
call('HDEL', key, parent)
local is_free = call('EXISTS', key) == 0
if is_free then job.flags = without(job.flags, PARENTS) end
if passes == 0 then
  local _, _, dead_ms = keep_of(job)
  put_extra(job, 'reason', 'parent')
  end_job(job, FAILED, TOLD.failed, dead_ms)
elseif is_free then
  leave(job)
  place(job, first_state(job), TOLD.unblocked)
end
finish()
return 1
