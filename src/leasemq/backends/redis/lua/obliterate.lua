-- Deletes a part of the jobs of this queue, by acceptance; results without a record go first.
-- Uses: prelude asked terms plain; records moves operating dropping
-- Flags: allow-oom
-- In: force (0, 1), from (a bucket of numbers), until (a number; -1 at the first call, which may be refused), limit
-- Out: nil: refused, jobs are active; else how many, the bucket to go on from or -1, until
local force, from, until_number, limit = whole(3, 0, 1), whole(4), whole(5, -1), whole(6, 1, 1000)
if until_number < 0 then
  if booked('active') > 0 and force == 0 then return false end
  until_number = booked('numbers')
end

local function forget_some_slips()
  local entries = call('ZRANGE', P .. 'slips', 0, limit - 1)
  for _, entry in ipairs(entries) do
    local _, generation = unpacked('>I6I4', entry)
    call('HDEL', P .. 'v:' .. sub(entry, 11), generation)
    exit('slips', entry)
  end
  if #entries > 0 then count('slips', -#entries) end
  return #entries == limit
end

local function drop_bucket(bucket) -- how many it dropped of those up to the last number
  local dropped, flat, numbers = 0, call('HGETALL', P .. 'n:' .. bucket), {}
  for at = 1, #flat, 2 do
    local number = tonumber(bucket) * 64 + tonumber(flat[at])
    if number <= until_number then numbers[#numbers + 1] = number end
  end
  table.sort(numbers)
  for at, id in ipairs(ids_of(numbers)) do
    local job = read(id)
    local is_its = job and job.number == numbers[at]
    if not is_its then number_id(numbers[at], false) end
    if job and (is_its or job.corrupt) and (job.state ~= ACTIVE or force == 1) then
      drop_all(job)
      dropped = dropped + 1
    end
  end
  return dropped
end

local dropped, goes_on = 0, -1
if forget_some_slips() then
  goes_on = from
else
  local found = call('ZRANGEBYSCORE', P .. 'numbers', from, floor(until_number / 64), 'LIMIT', 0, floor(limit / 64) + 1)
  for _, bucket in ipairs(found) do
    if dropped >= limit then break end
    dropped = dropped + drop_bucket(bucket)
    goes_on = tonumber(bucket) + 1
  end
end
finish()
return {dropped, goes_on, until_number}
