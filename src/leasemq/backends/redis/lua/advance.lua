-- Expires jobs past their ttl, then makes due ones waiting, each up to a limit.
-- Uses: prelude asked terms plain; records moves
-- Flags: allow-oom
-- In: limit
-- Out: promoted, expired, next due or -1
local limit = whole(3)
if is_idle() then return {0, 0, -1} end

local function entries_before(lane, most)
  local found = most > 0 and call('ZRANGEBYSCORE', P .. lane, '-inf', NOW, 'LIMIT', 0, most) or {}
  local numbers = {}
  for at, entry in ipairs(found) do
    local _, number = unpacked('>I6I6', entry)
    numbers[at] = number
  end
  return found, numbers, ids_of(numbers)
end

-- Nobody can be handed the lease of a job that cannot be read, so no sweep would ever settle it.
local function end_unreadable_leases()
  local entries, numbers, found = entries_before('leases', limit)
  for at, id in ipairs(found) do
    local job = id and read_whole(id)
    if job and not job.corrupt and has(job.flags, RUNS) then run_of(job) end
    local is_here = job and job.number == numbers[at] and job.state == ACTIVE and has(job.flags, RUNS)
    if job and job.head_size == PLAIN_SIZE and job.state == WAITING then job.corrupt = true end -- its run is gone
    local stays = job and job.is_newer
    if not stays and (not is_here or job.corrupt or not terms_blob(job)) then
      exit('leases', entries[at])
      if job and (job.corrupt or is_here) then
        job.corrupt = true
        end_unreadable(job, numbers[at], ACTIVE)
      elseif not job then
        lose(numbers[at], ACTIVE)
      end
    end
  end
end

local function promote()
  local entries, numbers, found = entries_before('due', limit)
  local promoted = 0
  for at, id in ipairs(found) do
    local job = id and read(id)
    local is_here = job and job.number == numbers[at] and job.state == SCHEDULED
    if is_here and not job.corrupt then
      leave(job)
      place(job, WAITING, TOLD.promoted)
      promoted = promoted + 1
    elseif not job or not job.is_newer then
      exit('due', entries[at])
      if job and job.corrupt then
        end_unreadable(job, numbers[at], SCHEDULED)
      elseif not job then
        lose(numbers[at], SCHEDULED)
      end
    end
  end
  return promoted
end

end_unreadable_leases()
flush()
local expired = expire_overdue(limit)
local promoted = promote()
flush()
local due = next_due()
finish()
return {promoted, expired, due}
