-- Pushes the deadlines of leases whose fences are the newest to now + lease_ms; notes the lost ones.
-- Uses: prelude asked terms plain; records moves
-- Flags: allow-oom
-- In: held: {job id, fence, nonce} each, lease_ms
-- Out: an answer per lease: held 1, cancel requested 2, lost 3; 0: that job cannot be read
local function renew_one(held, lease_ms)
  local job = read(held[1])
  if not job then return 3 end
  if job.corrupt and not has(job.flags or 0, UNREADABLE) then return 0 end
  local run = job.state == ACTIVE and run_of(job)
  if job.corrupt then return run and 0 or 3 end
  if not run or run.fence ~= held[2] or run.nonce ~= held[3] then
    refuse(job, held[2], 'renew')
    return 3
  end
  call('SETRANGE', P .. 'r:' .. job.id, 24 + more_of(job), pack('>I6I6', NOW + lease_ms, NOW))
  enter('leases', entry_of(job), NOW + lease_ms)
  return has(job.flags, CANCEL) and 2 or 1
end

local leases, lease_ms, answers = rows(3, {'t', 'n', 't'}), whole(4), {}
for at, held in ipairs(leases) do
  answers[at] = renew_one(held, lease_ms)
end
finish()
return answers
