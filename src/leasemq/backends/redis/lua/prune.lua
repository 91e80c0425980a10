-- Takes what is past its retention: records, results, keys' bounds, events; then what is beyond the newest.
-- Uses: prelude asked terms plain; records moves operating ended
-- Flags: allow-oom
-- In: limit, event age in ms, newest (records of each terminal state, and results without a record, that stay)
-- Out: how many records and results it took
local limit, event_age_ms, newest = whole(3, 0, 1000), whole(4, -2 ^ 53), whole(5)

local function forget_lapsed_keys()
  for _, key in ipairs(call('ZRANGEBYSCORE', P .. 'hold_ends', '-inf', NOW, 'LIMIT', 0, 1000)) do
    call('HDEL', P .. 'holds', key)
    exit('hold_ends', key)
  end
end

local function last_old_event() -- of those before the first that is young enough; at most 2,000 entries on
  local from, last = '-', nil
  for _ = 1, 20 do
    local entries = call('XRANGE', P .. 'events', from, '+', 'COUNT', 100)
    for _, entry in ipairs(entries) do
      if tonumber(entry[2][2]) > NOW - event_age_ms then return last end
      last = tonumber(string.match(entry[1], '^%d+'))
      from = '(' .. entry[1]
    end
    if #entries < 100 then return last end
  end
  return last
end

local function forget_old_events()
  local last = last_old_event()
  if last and last > booked('events_trimmed') then
    amend('events_trimmed', last)
    call('XTRIM', P .. 'events', 'MINID', digits(last + 1) .. '-0')
  end
end

local function forget_ended(number, entry) -- a record that is gone or cannot be read; its state is its lane's
  exit('kept', entry)
  for state = COMPLETED, EXPIRED do
    if call('ZSCORE', P .. 'ended:' .. state, pack('>I6', number)) then
      exit('ended:' .. state, pack('>I6', number))
      lose(number, state)
    end
  end
end

local function take_lapsed() -- the record, or before that the result
  local entries = limit > 0 and call('ZRANGEBYSCORE', P .. 'kept', '-inf', NOW, 'LIMIT', 0, limit) or {}
  local numbers, goes_by = {}, 0
  for at, entry in ipairs(entries) do
    local _, number = unpacked('>I6I6', entry)
    numbers[at] = number
  end
  for at, id in ipairs(ids_of(numbers)) do
    local job = id and read(id)
    local is_here = job and not is_broken(job) and job.number == numbers[at] and job.state >= COMPLETED
    if job and job.is_newer then
      goes_by = goes_by + 1
    elseif not is_here then
      forget_ended(numbers[at], entries[at])
      if job and (is_broken(job) or job.head_size == PLAIN_SIZE) then forget_keys(id) end -- or its run is gone
    elseif run_of(job).keep <= NOW then
      retire(job)
    else
      local run = job.run
      run.has_result, run.result = 0, ''
      save_run(job)
      enter('kept', entries[at], prune_ms(run))
    end
  end
  return #entries - goes_by
end

local function take_beyond(left) -- of these no result stays
  local taken = 0
  for _, state in ipairs({CANCELLED, COMPLETED, EXPIRED, FAILED}) do
    local excess = math.min(stored_in(state) - newest, left - taken)
    local found = excess > 0 and ended_before(state, '+inf', excess) or {}
    for _, one in ipairs(found) do
      local id = ids_of({one[2]})[1]
      local job = id and read(id)
      if job and job.number == one[2] and job.state == state then
        drop(job)
      elseif not job or not job.is_newer then
        exit('ended:' .. state, one[3])
        lose(one[2], state)
      end
    end
    taken = taken + #found
  end
  return taken
end

local function lapse_slips()
  local flat = limit > 0 and call('ZRANGE', P .. 'slips', 0, limit - 1, 'WITHSCORES') or {}
  for at = 1, #flat, 2 do
    if tonumber(flat[at + 1]) > NOW and booked('slips') <= newest then return (at - 1) / 2 end
    local _, generation = unpacked('>I6I4', flat[at])
    call('HDEL', P .. 'v:' .. sub(flat[at], 11), generation)
    exit('slips', flat[at])
    count('slips', -1)
  end
  return #flat / 2
end

forget_lapsed_keys()
forget_old_events()
local taken = take_lapsed()
flush()
taken = taken + take_beyond(limit - taken)
flush()
taken = taken + lapse_slips()
finish()
return taken
