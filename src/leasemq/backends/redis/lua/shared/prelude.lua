-- What every script of a queue begins with: its book, its clock, its lanes, and what is told at the end.
--
-- Nothing here is written before `finish`, but by those that say so: lanes, books, events and pushes are
-- gathered, and written in one go. A script that answers before `finish` has changed none of them.
-- In: KEYS[1] = what every key of the queue begins with, ARGV[1] = msgpack [clock or 0, event limit, ...]
local call, try = redis.call, redis.pcall
local pack, unpacked = struct.pack, struct.unpack
local sub, format, floor = string.sub, string.format, math.floor

local P = KEYS[1]
local ARGS = cmsgpack.unpack(ARGV[1])
local NOW, EVENT_LIMIT = ARGS[1], ARGS[2]
if NOW == 0 then
  local time = call('TIME')
  NOW = tonumber(time[1]) * 1000 + floor(tonumber(time[2]) / 1000)
end

-- States in the order of the contract; from COMPLETED on they are terminal.
local SCHEDULED, WAITING, ACTIVE, BLOCKED, COMPLETED, FAILED, CANCELLED, EXPIRED = 1, 2, 3, 4, 5, 6, 7, 8
local STATES = {'scheduled', 'waiting', 'active', 'blocked', 'completed', 'failed', 'cancelled', 'expired'}
-- Events, in the order of layout.EVENTS. An event of an end has the number of its state and 0.
local TOLD = {
  enqueued = 1, promoted = 2, rescheduled = 3, claimed = 4, completed = 5, retried = 6, failed = 7,
  released = 8, snoozed = 9, stalled = 10, cancel_requested = 11, cancelled = 12, expired = 13,
  unblocked = 14, progress = 15, replaced = 16, replayed = 17, removed = 18, log = 19,
}
local BATCH = 2000 -- values in one command; Lua can spread no more than about 8,000

local function digits(number) -- a whole number as text: `..` would round it
  return format('%d', number)
end

-- THE BOOK: the queue's own hash of counts, counters and switches.
local book, amended = {}, {}
do
  local flat = call('HGETALL', P .. 'book')
  for place = 1, #flat, 2 do
    book[flat[place]] = flat[place + 1]
  end
end

local function booked(name) -- a number of the book
  return tonumber(book[name]) or 0
end

local function amend(name, value)
  book[name] = value
  amended[name] = true
end

local function count(name, by)
  amend(name, booked(name) + by)
  return book[name]
end

local places, moved = booked('places'), {0, 0, 0, 0, 0, 0, 0, 0} -- the order's last place; changes per state

local function next_place()
  places = places + 1
  return places
end

local function stored_in(state) -- how many jobs are in a state
  return booked(STATES[state]) + moved[state]
end

-- THE LANES: sorted sets. What is put in or taken out is written by `flush`, the last word counts.
-- Lanes are named without the prefix, but for buckets of waiting jobs (see moves).
local lanes, buckets, ids = {}, {}, {}

local function noted(of, key, member, value)
  local wanted = of[key]
  if not wanted then
    wanted = {}
    of[key] = wanted
  end
  wanted[member] = value
end

local function enter(lane, member, score) -- into a sorted set of the queue
  local wanted = lanes[lane]
  if not wanted then
    wanted = {}
    lanes[lane] = wanted
  end
  wanted[member] = score
end

local function exit(lane, member)
  enter(lane, member, false)
end

local function spread(command, key, values)
  for first = 1, #values, BATCH do
    call(command, key, unpack(values, first, math.min(first + BATCH - 1, #values)))
  end
end

-- THE CLAIMS: c: of a claim has the entries of its jobs (n: place and number, twelve bytes each), and how many of
-- them are active under it still (l); the others' stay until none is. o: of a life of a worker has its claims.
local taken, released = {}, {}

local function hold(incarnation, nonce, entry)
  local claim = taken[nonce]
  if not claim then
    claim = {incarnation = incarnation}
    taken[nonce] = claim
  end
  claim[#claim + 1] = entry
end

local function let_go(incarnation, nonce, by)
  local claim = released[nonce]
  if not claim then
    claim = {incarnation = incarnation, by = 0}
    released[nonce] = claim
  end
  claim.by = claim.by + by
end

local function numbers_held(nonce) -- READS
  local packed, numbers, seen = call('HGET', P .. 'c:' .. nonce, 'n') or '', {}, {}
  for at = 1, #packed - 11, 12 do
    local _, number = unpacked('>I6I6', packed, at)
    if not seen[number] then numbers[#numbers + 1] = number end
    seen[number] = true
  end
  return numbers
end

-- Writes the lanes as they are now. Whoever reads a lane after a move in the same script calls it first.
local flush
do
  local function flush_lanes()
    for name, wanted in pairs(lanes) do
      local bucket = buckets[name]
      local key, into, out = bucket and name or P .. name, {}, {}
      for member, score in pairs(wanted) do
        if score then
          into[#into + 1] = score
          into[#into + 1] = member
        else
          out[#out + 1] = member
        end
      end
      if #out > 0 then spread('ZREM', key, out) end
      if #into > 0 then spread('ZADD', key, into) end
      if bucket then -- the index names the buckets that have members
        if #into > 0 then
          call('ZADD', bucket[1], bucket[2], bucket[2])
        elseif call('EXISTS', key) == 0 then
          call('ZREM', bucket[1], bucket[2])
        end
      end
    end
  end

  local function flush_ids()
    for bucket, wanted in pairs(ids) do
      local key, into, out = P .. 'n:' .. digits(bucket), {}, {}
      for number, id in pairs(wanted) do
        if id then
          into[#into + 1] = number % 64
          into[#into + 1] = id
        else
          out[#out + 1] = number % 64
        end
      end
      if #out > 0 then
        call('HDEL', key, unpack(out))
        if #into == 0 and call('EXISTS', key) == 0 then call('ZREM', P .. 'numbers', bucket) end
      end
      if #into > 0 then
        call('HSET', key, unpack(into))
        call('ZADD', P .. 'numbers', bucket, bucket)
      end
    end
  end

  local function flush_claims()
    for nonce, claim in pairs(released) do
      if call('HINCRBY', P .. 'c:' .. nonce, 'l', -claim.by) <= 0 then
        call('UNLINK', P .. 'c:' .. nonce)
        call('SREM', P .. 'o:' .. claim.incarnation, nonce)
      end
    end
    for nonce, claim in pairs(taken) do
      local key = P .. 'c:' .. nonce
      call('HSET', key, 'n', (call('HGET', key, 'n') or '') .. table.concat(claim))
      call('HINCRBY', key, 'l', #claim)
      call('SADD', P .. 'o:' .. claim.incarnation, nonce)
    end
  end

  function flush()
    if next(taken) or next(released) then
      flush_claims()
      taken, released = {}, {}
    end
    if next(lanes) then
      flush_lanes()
      lanes, buckets = {}, {}
    end
    if next(ids) then
      flush_ids()
      ids = {}
    end
  end
end

-- THE NUMBERS: jobs are numbered as they are accepted; the ids of 64 lie in one hash.
local function number_id(number, id) -- id false: forget it
  noted(ids, floor(number / 64), number, id)
end

local function ids_of(numbers) -- ids in the same order, false where there is none
  local found, asked, at = {}, {}, {}
  for place = 1, #numbers do
    local number = numbers[place]
    local bucket = floor(number / 64)
    found[place] = false
    if not asked[bucket] then asked[bucket], at[bucket] = {}, {} end
    local fields = asked[bucket]
    fields[#fields + 1] = number % 64
    at[bucket][#fields] = place
  end
  for bucket, fields in pairs(asked) do
    local answers = call('HMGET', P .. 'n:' .. digits(bucket), unpack(fields))
    for each = 1, #answers do
      found[at[bucket][each]] = answers[each]
    end
  end
  return found
end

local function is_idle() -- whether nothing waits, for its time or for a worker, and nothing runs. Reads lanes
  return call('EXISTS', P .. 'ready', P .. 'suspects', P .. 'due', P .. 'ttl', P .. 'leases') == 0
end

local function next_due() -- in ms; -1: nothing is scheduled. Reads a lane
  local first = call('ZRANGE', P .. 'due', 0, 0, 'WITHSCORES')
  return first[2] and math.max(0, tonumber(first[2]) - NOW) or -1
end

local function next_lapse() -- in ms; -1: nothing runs. Reads a lane
  local first = call('ZRANGE', P .. 'leases', 0, 0, 'WITHSCORES')
  return first[2] and math.max(0, tonumber(first[2]) - NOW) or -1
end

-- WHAT IS TOLD: events of this script, one stream entry, and one push.
local events, woken, cancels, ended, is_heard = {}, false, {}, {}, nil

local function wake()
  woken = true
end

local function record_event(kind, state, attempts, generation, id)
  events[#events + 1] = pack('>BBI4I4I2c0', kind, state, attempts, generation, #id, id)
end

-- Writes all that was gathered. The last thing that a script does before it answers.
local finish
do
  -- Of those that ended, the ones that somebody waits for. Interests lapse by themselves; see listening.
  local function interesting()
    local names, wanted = {}, {}
    for place, name in ipairs(ended) do
      names[place] = name
    end
    for first = 1, #names, BATCH do
      local last = math.min(first + BATCH - 1, #names)
      local until_ms = call('ZMSCORE', P .. 'interest', unpack(names, first, last))
      for place = 1, #until_ms do
        if until_ms[place] and tonumber(until_ms[place]) > NOW then
          wanted[#wanted + 1] = names[first + place - 1]
        end
      end
    end
    return wanted
  end

  local function push()
    local followed = #events > 0 and book.followed_until and tonumber(book.followed_until) > NOW
    local heard = #ended > 0 and interesting() or {}
    if not (woken or followed or #cancels > 0 or #heard > 0) then return end
    local namespace, tag = string.match(P, '^([^{]*){(.*)}:$')
    local told = {pack('>BI2I2I2', (woken and 1 or 0) + (followed and 2 or 0), #tag, #cancels, #heard), tag}
    for _, list in ipairs({cancels, heard}) do
      for _, name in ipairs(list) do
        told[#told + 1] = pack('>I2', #name) .. name
      end
    end
    call('PUBLISH', namespace .. '{%/told}', table.concat(told))
  end

  function finish()
    flush()
    for state = 1, 8 do
      if moved[state] ~= 0 then count(STATES[state], moved[state]) end
    end
    if places ~= booked('places') then amend('places', places) end
    if #events > 0 then
      local newest = count('events', #events)
      local entry, body = digits(newest) .. '-0', table.concat(events)
      local oldest = newest - EVENT_LIMIT + 1
      if oldest > 1 then
        call('XADD', P .. 'events', 'MINID', '~', digits(oldest) .. '-0', entry, 't', NOW, 'n', #events, 'e', body)
      else
        call('XADD', P .. 'events', entry, 't', NOW, 'n', #events, 'e', body)
      end
    end
    local flat = {}
    for name in pairs(amended) do
      flat[#flat + 1] = name
      flat[#flat + 1] = book[name]
    end
    if #flat > 0 then call('HSET', P .. 'book', unpack(flat)) end
    push()
  end
end
