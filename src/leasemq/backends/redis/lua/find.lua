-- Looks through jobs by acceptance for those that match, until enough were found or looked at.
-- Uses: prelude asked terms plain; records moves telling
-- Flags: no-writes
-- In: after (a number; -1: from the beginning), way (1: oldest first, -1: newest first), limit,
--   states (2 ^ (state - 1) for each; 0: any), task or '', start of the id or '', reason or '',
--   age at least or false, age at most or false
-- Out: parts of each (see telling), numbers, the last number looked at, whether that was all (0, 1), terms, now
local after, way, limit, states = whole(3, -1), whole(4, -1, 1), whole(5, 0, 1001), whole(6, 0, 255)
local task, start, reason = text(7), text(8), text(9)
local least_ms, most_ms = ARGS[10] and whole(10, -2 ^ 53), ARGS[11] and whole(11, -2 ^ 53)
local LOOKS, FEW, PAGE = 2000, 2000, 1048576
local found, numbers, size, looked = {}, {}, 0, 0

local function long(id) -- the id as it was given; see layout.short
  local form = #id == 17 and id:byte() or 2
  if form > 1 then return id end
  local hex = sub(id, 2):gsub('.', function(one) return format('%02x', one:byte()) end)
  return form == 1 and hex or hex:gsub('^(%x%x%x%x%x%x%x%x)(%x%x%x%x)(%x%x%x%x)(%x%x%x%x)', '%1-%2-%3-%4-')
end

local function age_of(job)
  local from = job.created
  if job.state >= COMPLETED then
    local raw = try('GETRANGE', P .. 'r:' .. job.id, 64 + more_of(job), 69 + more_of(job))
    if #raw == 6 then from = unpacked('>I6', raw) end
  end
  return NOW - from
end

local function is_match(job)
  if states > 0 and not has(states, 2 ^ (job.state - 1)) then return false end
  if start ~= '' and sub(long(job.id), 1, #start) ~= start then return false end
  if task ~= '' and task_of(job) ~= task then return false end
  if reason ~= '' and extra(job, 'reason') ~= reason then return false end
  if not (least_ms or most_ms) then return true end
  local age_ms = age_of(job)
  return (not least_ms or age_ms >= least_ms) and (not most_ms or age_ms <= most_ms)
end

local function bytes_of(parts)
  local bytes = #parts[2] + #parts[3]
  for at = 4, 7 do
    for _, value in ipairs(parts[at]) do
      bytes = bytes + #value
    end
  end
  return bytes
end

local function look(some) -- at jobs by their numbers, in this order; whether to go on
  for at, id in ipairs(ids_of(some)) do
    after, looked = some[at], looked + 1
    local job = id and read(id)
    if job and not job.corrupt and job.number == some[at] and is_match(job) then
      local parts = parts_of(job)
      found[#found + 1], numbers[#numbers + 1] = parts, some[at]
      size = size + bytes_of(parts)
    end
    if #found >= limit or size > PAGE or looked >= LOOKS then return false end
  end
  return true
end

local function in_way(one, other)
  return way * one < way * other
end

local function beyond(some) -- those that come after the last one, in order
  local kept = {}
  for _, number in ipairs(some) do
    if after < 0 or in_way(after, number) then kept[#kept + 1] = number end
  end
  table.sort(kept, in_way)
  return kept
end

local function walk() -- along all that are stored; whether that was all
  local bucket = after >= 0 and floor(after / 64) or (way == 1 and 0 or 2 ^ 53)
  while true do
    local some
    if way == 1 then
      some = call('ZRANGEBYSCORE', P .. 'numbers', digits(bucket), '+inf', 'LIMIT', 0, 8)
    else
      some = call('ZREVRANGEBYSCORE', P .. 'numbers', digits(bucket), '-inf', 'LIMIT', 0, 8)
    end
    for _, name in ipairs(some) do
      local fields, listed = call('HKEYS', P .. 'n:' .. name), {}
      for at, field in ipairs(fields) do
        listed[at] = tonumber(name) * 64 + tonumber(field)
      end
      if not look(beyond(listed)) then return false end
      bucket = tonumber(name) + way
    end
    if #some < 8 or bucket < 0 then return true end
  end
end

local function few() -- the numbers of all in the states asked for; nil: there are many
  local sum, listed = 0, {}
  for state = SCHEDULED, EXPIRED do
    if has(states, 2 ^ (state - 1)) then sum = sum + stored_in(state) end
  end
  if states == 0 or sum > FEW then return nil end
  local function take(lane, shape)
    for _, entry in ipairs(call('ZRANGE', P .. lane, 0, FEW)) do
      local one, other = entry, nil
      if shape then one, other = unpacked(shape, entry) end
      listed[#listed + 1] = shape == '>I6I6' and other or tonumber(one)
    end
  end
  local function take_lane(lane, prefix)
    for _, rank_of in ipairs(call('ZRANGE', P .. lane, 0, FEW)) do
      take(prefix .. rank_of)
    end
  end
  if has(states, 2 ^ (SCHEDULED - 1)) then take('due', '>I6I6') end
  if has(states, 2 ^ (ACTIVE - 1)) then take('leases', '>I6I6') end
  if has(states, 2 ^ (BLOCKED - 1)) then take('blocked') end
  if has(states, 2 ^ (WAITING - 1)) then
    take_lane('ready', 'w:')
    take_lane('suspects', 's:')
  end
  for state = COMPLETED, EXPIRED do
    if has(states, 2 ^ (state - 1)) then take('ended:' .. state, '>I6') end
  end
  return listed
end

local listed, is_all = few(), nil
if listed then
  is_all = look(beyond(listed))
else
  is_all = walk()
end
return {found, numbers, after, is_all and 1 or 0, terms_told(), NOW}
