-- Starts a new run of jobs that failed, expired or were cancelled.
-- Uses: prelude asked terms plain; records moves operating
-- Flags: allow-oom
-- In: request id (8 bytes), ids
-- Out: an answer per id (see operating)
local request, asked = text(3, 8), texts(4)
if #request ~= 8 then error('argument 3 is not a request id') end

local function parents_of(job) -- those still open: {queue, id, policy} each
  local parents = {}
  if has(job.flags, PARENTS) then
    for at, parent in ipairs(in_order(P .. 'p:' .. job.id)) do
      local size = unpacked('>I2', parent[1])
      parents[at] = {sub(parent[1], 3, 2 + size), sub(parent[1], 3 + size), parent[2]}
    end
  end
  return parents
end

local function restart(job) -- WRITES
  local run = job.run
  leave(job)
  bank_attempt(job)
  put_extra(job, 'replay', request)
  beside('HDEL', P .. 'x:' .. job.id, 'error', 'reason', 'progress')
  run.replays = run.replays + 1
  run.attempts, run.failures, run.stalls = 0, 0, 0
  run.ended, run.keep, run.result_until, run.has_result, run.result = 0, 0, 0, 0, ''
  job.flags = with(without(without(job.flags, SUSPECT), CANCEL), REPLAYS)
  job.due = NOW
  local rare = rare_of(job)
  job.expires = rare and rare.ttl > 0 and NOW + rare.ttl - 1 or 0
  local parents = parents_of(job)
  attach_to_parents(job, parents)
  save_run(job)
  place(job, #parents > 0 and BLOCKED or WAITING, TOLD.replayed)
end

local function replay(job)
  if job.corrupt then return {BROKEN, 0} end
  local found, rare = job.state, rare_of(job)
  if extra(job, 'replay') == request then return {DONE, found} end
  if found < FAILED then return {ILLEGAL, found} end
  run_of(job)
  if job.corrupt or (has(job.marks, RARE) and not rare) then return {BROKEN, 0} end
  if has(job.marks, UNIQUE) and rare.mode ~= THROTTLE then
    local hold = holder(rare.key)
    if hold and (hold.id ~= job.id or hold.generation ~= job.generation) then
      return {CONFLICT, found, hold.id, hold.generation}
    end
    take_key(job, rare)
  end
  restart(job)
  return {DONE, found}
end

local answers = change_each(asked, replay)
finish()
return answers
