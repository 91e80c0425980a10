-- Deletes jobs that have not started: blocked ones, then scheduled ones by due time, then waiting ones in the
-- order of claims.
-- Uses: prelude asked terms plain; records moves operating dropping
-- Flags: allow-oom
-- In: limit, states (2 ^ (state - 1) for each)
-- Out: how many
local limit, states = whole(3, 0, 1000), whole(4, 0, 255)
local left = limit

local function drain_blocked()
  local numbers = call('ZRANGE', P .. 'blocked', 0, left - 1)
  for at, number in ipairs(numbers) do
    numbers[at] = tonumber(number)
  end
  drop_listed(numbers, BLOCKED, function(at) exit('blocked', numbers[at]) end)
  left = left - #numbers
end

local function drain_scheduled()
  local entries, numbers = call('ZRANGE', P .. 'due', 0, left - 1), {}
  for at, entry in ipairs(entries) do
    local _, number = unpacked('>I6I6', entry)
    numbers[at] = number
  end
  drop_listed(numbers, SCHEDULED, function(at) exit('due', entries[at]) end)
  left = left - #numbers
end

local function drain_waiting(lane, prefix)
  if left == 0 then return end
  local ranks = call('ZRANGE', P .. lane, 0, left - 1) -- each has one job at least
  for _, rank_of in ipairs(ranks) do
    if left == 0 then return end
    local key = P .. prefix .. rank_of
    local numbers = call('ZRANGE', key, 0, left - 1)
    for at, number in ipairs(numbers) do
      numbers[at] = tonumber(number)
    end
    if not buckets[key] then buckets[key] = {P .. lane, tonumber(rank_of)} end
    drop_listed(numbers, WAITING, function(at) noted(lanes, key, numbers[at], false) end)
    left = left - #numbers
  end
end

if left > 0 and has(states, 2 ^ (BLOCKED - 1)) then drain_blocked() end
if left > 0 and has(states, 2 ^ (SCHEDULED - 1)) then drain_scheduled() end
if left > 0 and has(states, 2 ^ (WAITING - 1)) then
  drain_waiting('ready', 'w:')
  drain_waiting('suspects', 's:')
end
finish()
return limit - left
