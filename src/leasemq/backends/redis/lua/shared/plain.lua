-- Plain jobs: with nothing rare, waiting, active under their first claim, or completed by it.
--
-- Most jobs are plain all their lives, so these are handled many at a time, and before the rest of a script is
-- made. A plain record has a short head, which says how it waits: the generation is 1, it was due when it was
-- created, it has no ttl. It is never written again: from the claim on its run says the state, the entry in lanes
-- (place and number) and since when, so that a run left over from another life counts for nothing. What makes a
-- job rare makes long ones of both: see `save` of records.
local PLAIN, PLAIN_SIZE, PLAIN_PAYLOAD = '>BBBI6I6I5I6I6I2I3', 37, 65535
local RUN, RUN_SIZE = '>BI7I4I4I4I4I6I6I6I6BBI6c8I6I6I6BBI2I2I4', 92
local PLAIN_RUN, PLAIN_MORE = '>BBI6I6I6', 19 -- instead of the version of a run; bytes that it has more
local NOBODY = string.rep('\0', 8) -- no settlement, no request
local NOW_PACKED = pack('>I6', NOW)
local FIRST = '\0\0\0\1' -- the generation

local sizes = {} -- as they stand before names
local function size_of(name)
  local size = sizes[#name]
  if not size then
    size = pack('>I2', #name)
    sizes[#name] = size
  end
  return size
end

-- Waiting jobs lie in buckets of 64 places of one priority; an index has the buckets by rank, as they are claimed.
local function rank_at(priority, place)
  return (200 - priority) * 35184372088832 + floor(place / 64)
end

local digits_of = {} -- of small numbers
local function small_digits(number)
  local text = digits_of[number]
  if not text then
    text = format('%d', number)
    digits_of[number] = text
  end
  return text
end
