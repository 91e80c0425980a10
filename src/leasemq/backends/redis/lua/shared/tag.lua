-- What a script begins with that has nothing to do with the jobs of a queue.
local call, P = redis.call, KEYS[1]
local floor, format = math.floor, string.format
local ARGS = cmsgpack.unpack(ARGV[1])
local NOW = ARGS[1]
if NOW == 0 then
  local time = call('TIME')
  NOW = tonumber(time[1]) * 1000 + floor(tonumber(time[2]) / 1000)
end

local function digits(number) -- a whole number as text: `..` would round it
  return format('%.0f', number)
end
