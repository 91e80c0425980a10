-- Answers the book's counts and the age of the job that waits longest.
-- Uses: prelude asked terms plain; records moves
-- Flags: no-writes
-- In: nothing
-- Out: scheduled, waiting, active, blocked, completed, failed, cancelled, expired, accepted, removed, refused,
--      stalls, releases, paused (0, 1), age of the job longest waiting or nil
local function longest_in(lane, prefix) -- the lowest place and its number, over the priorities that wait
  local from, best, number = '-inf', nil, nil
  while true do
    local bucket = call('ZRANGEBYSCORE', P .. lane, from, '+inf', 'LIMIT', 0, 1)[1]
    if not bucket then return best, number end
    local first = call('ZRANGE', P .. prefix .. bucket, 0, 0, 'WITHSCORES')
    local place = first[2] and tonumber(bucket) % 35184372088832 * 64 + tonumber(first[2])
    if place and (not best or place < best) then
      best, number = place, tonumber(first[1])
    end
    from = digits((floor(tonumber(bucket) / 35184372088832) + 1) * 35184372088832)
  end
end

local place_one, one = longest_in('ready', 'w:')
local place_other, other = longest_in('suspects', 's:')
local number = one
if other and (not one or place_other < place_one) then number = other end
local id = number and ids_of({number})[1]
local job = id and read(id)
local age = job and job.since and NOW - job.since

local answer = {}
for state = 1, 8 do
  answer[state] = booked(STATES[state])
end
for _, name in ipairs({'accepted', 'removed', 'refused', 'stalls', 'releases', 'paused'}) do
  answer[#answer + 1] = booked(name)
end
answer[#answer + 1] = age or false
return answer
