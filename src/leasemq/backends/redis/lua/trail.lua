-- Reads a job's own trail, oldest first, a mebibyte of values and one entry more at most.
-- Uses: prelude asked terms plain; records moves operating
-- Flags: no-writes
-- In: id, generation (-1: any), after (a number), limit
-- Out: nil: no such life; -1: it cannot be read; generation, the oldest number kept or 0, the newest, entries
local id, generation, after, limit = text(3), whole(4, -1), whole(5), whole(6, 0, 1000)
local job = read(id)
if not job then return false end
if is_broken(job) then return -1 end
if generation >= 0 and job.generation ~= generation then return false end
local newest = tonumber(has(job.marks, TRAIL) and extra(job, 'trail') or 0)
local kept = newest ~= 0 and try('LLEN', P .. 't:' .. id) or 0
if not newest or type(kept) ~= 'number' then return -1 end
local oldest = kept > 0 and newest - kept + 1 or 0
local found, size, at = {}, 0, math.max(after - oldest + 1, 0)
while #found < limit and at < kept and size <= 1048576 do
  for _, entry in ipairs(call('LRANGE', P .. 't:' .. id, at, at + math.min(20, limit - #found) - 1)) do
    size = size + #entry
    found[#found + 1] = entry
  end
  at = math.max(after - oldest + 1, 0) + #found
end
return {job.generation, oldest, newest, found}
