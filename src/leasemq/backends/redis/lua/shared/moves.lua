-- How jobs move, end and go: the same names and the same order of things as in the memory backend's shelf.
--
-- A job here is a table that `read` or `read_whole` answered. Each move writes its head.
local OFFER_NONE = ''

local function entry_of(job) -- in lanes where the place decides between equals
  return pack('>I6I6', job.place, job.number)
end

local function number_entry(job) -- in lanes where the order of acceptance does
  return pack('>I6', job.number)
end

local function name_of(job) -- a life of an id of this queue, in pushes and interests
  return pack('>I4', job.generation) .. job.id
end

local function tell_end(job) -- that it ended, if anybody waits for anything of this queue
  if is_heard == nil then is_heard = call('EXISTS', P .. 'interest') == 1 end
  if is_heard then ended[#ended + 1] = name_of(job) end
end

local function ref_name(queue, id, generation) -- a life of an id of any queue; '' is this one
  return pack('>I2', #queue) .. queue .. pack('>I2', #id) .. id .. pack('>I4', generation)
end

local ranked = {ready = {}, suspects = {}} -- the buckets' keys by their ranks

local function bucket_at(lane, priority, place)
  local rank = rank_at(priority, place)
  local key = ranked[lane][rank]
  if not key then
    key = P .. (lane == 'ready' and 'w:' or 's:') .. digits(rank)
    ranked[lane][rank] = key
  end
  if not buckets[key] then buckets[key] = {P .. lane, rank} end
  return key
end

local function bucket_of(job)
  return bucket_at(has(job.flags, SUSPECT) and 'suspects' or 'ready', job.priority, job.place)
end

local function rank(job) -- into its lane, by its place
  noted(lanes, bucket_of(job), job.number, job.place % 64)
end

local function unrank(job)
  noted(lanes, bucket_of(job), job.number, false)
end

local function prune_ms(run)
  if run.has_result == 0 or run.result_until == 0 then return run.keep end
  return math.min(run.result_until, run.keep)
end

local function trace(job, kind, value) -- WRITES into the job's own trail, if it keeps one
  if not has(job.marks, TRAIL) or not job.state then return end
  local rare = rare_of(job)
  if not rare then return end
  local number = (tonumber(extra(job, 'trail') or 0) or 0) + 1
  put_extra(job, 'trail', number)
  beside('RPUSH', P .. 't:' .. job.id, pack(
    '>I6I6I4BBB', number, NOW, attempts_of(job), kind, job.state, value and 1 or 0
  ) .. (value or ''))
  call('LTRIM', P .. 't:' .. job.id, -rare.trail, -1)
end

local function tell(job, kind, value) -- one event, into the trail too; `kind` is one of TOLD
  trace(job, kind, value)
  local attempts = 0
  if job.run or has(job.flags or 0, RUNS) then attempts = attempts_of(job) end
  record_event(kind, job.state or 0, attempts, job.generation, job.id)
end

local function leave(job) -- out of the lanes and the count of its state
  local state = job.state
  moved[state] = moved[state] - 1
  if state == WAITING then
    unrank(job)
  elseif state == SCHEDULED then
    exit('due', entry_of(job))
  elseif state == ACTIVE then
    local run = run_of(job)
    exit('leases', entry_of(job))
    if run.nonce ~= '' then let_go(run.incarnation, run.nonce, 1) end
    if has(job.flags, SUSPECT) then exit('alone', job.number) end
  elseif state == BLOCKED then
    exit('blocked', job.number)
  else
    exit('kept', entry_of(job))
    exit('ended:' .. state, number_entry(job))
  end
  if job.expires > 0 and state ~= ACTIVE and state < COMPLETED then exit('ttl', number_entry(job)) end
end

local function line_up(job) -- into the lanes of its state
  local state = job.state
  if state == WAITING then
    rank(job)
  elseif state == SCHEDULED then
    enter('due', entry_of(job), job.due)
  elseif state == ACTIVE then
    local run = job.run
    enter('leases', entry_of(job), run.lease)
    hold(run.incarnation, run.nonce, entry_of(job))
    if has(job.flags, SUSPECT) then enter('alone', job.number, job.number) end
  elseif state == BLOCKED then
    enter('blocked', job.number, job.number)
  else
    local run = run_of(job)
    enter('kept', entry_of(job), prune_ms(run))
    enter('ended:' .. state, number_entry(job), run.ended)
  end
  if job.expires > 0 and state ~= ACTIVE and state < COMPLETED then
    enter('ttl', number_entry(job), job.expires)
  end
end

-- The only way in which a state changes. Before: `leave`, unless it is new, while the job is as it was; then
-- flags, run, due and expires as they will be.
local function place(job, state, kind, is_new)
  if is_new then
    count('accepted', 1)
    job.born = booked('events') + #events
  end
  job.state, job.place, job.since = state, next_place(), NOW
  moved[state] = moved[state] + 1
  line_up(job)
  if state == WAITING or state == SCHEDULED then wake() end
  tell(job, kind)
  if not is_new then save(job) end
end

local function follow_up(kind, child, parent, policy, outcome, offered) -- child, parent: ref_name
  local id = count('follow_ups', 1)
  enter('outbox', pack('>I6BBBI2I2', id, kind, policy, outcome, #child, #parent) .. child .. parent .. offered, id)
end

local ATTACH, RESOLVE, OFFER = 1, 2, 3

local function attach_to_parents(job, parents) -- parents: {queue, id, policy} each
  local child = ref_name('', job.id, job.generation)
  for _, parent in ipairs(parents) do
    follow_up(ATTACH, child, ref_name(parent[1], parent[2], 0), parent[3], 0, OFFER_NONE)
  end
end

local function in_order(key) -- fields of a hash whose values begin with '>I4B' (number, policy), by number
  local flat, found = beside('HGETALL', key), {}
  for at = 1, #flat, 2 do
    if #flat[at + 1] == 5 then
      local number, policy = unpacked('>I4B', flat[at + 1])
      found[#found + 1] = {flat[at], policy, number}
    end
  end
  table.sort(found, function(one, other) return one[3] < other[3] end)
  return found
end

local function tell_dependants(job, outcome) -- outcome: a terminal state, 0: it is unknown
  if not has(job.flags, DEPENDANTS) then return end
  local parent = ref_name('', job.id, job.generation)
  for _, dependant in ipairs(in_order(P .. 'd:' .. job.id)) do
    follow_up(RESOLVE, dependant[1], parent, dependant[2], outcome, OFFER_NONE)
  end
end

-- UNIQUE KEYS: a hash of who holds them, and a lane of those with a bound.
local THROTTLE, DEBOUNCE, REPLACE = 4, 3, 2
local UNTIL_START = 1

local function held(key) -- who holds a key, whatever the time
  local raw = call('HGET', P .. 'holds', key)
  if not raw or #raw < 11 then return nil end
  local mode, until_ms, generation = unpacked('>BI6I4', raw)
  return {mode = mode, until_ms = until_ms, generation = generation, id = sub(raw, 12)}
end

local function holder(key) -- who holds a key now
  local hold = held(key)
  if hold and hold.until_ms > 0 and hold.until_ms <= NOW then return nil end
  return hold
end

local function take_key(job, rare) -- WRITES
  local until_ms = rare.window > 0 and rare.mode ~= DEBOUNCE and NOW + rare.window - 1 or 0
  call('HSET', P .. 'holds', rare.key, pack('>BI6I4', rare.mode, until_ms, job.generation) .. job.id)
  if until_ms > 0 then
    enter('hold_ends', rare.key, until_ms)
  else
    exit('hold_ends', rare.key)
  end
end

local function free_key(job, at_start) -- WRITES; a throttled key is freed by its window only
  if not has(job.marks, UNIQUE) then return end
  local rare = rare_of(job)
  if not rare or rare.mode == THROTTLE or (at_start and rare.ends ~= UNTIL_START) then return end
  local hold = held(rare.key)
  if hold and hold.id == job.id and hold.generation == job.generation then
    call('HDEL', P .. 'holds', rare.key)
    exit('hold_ends', rare.key)
  end
end

-- SLIPS: results that outlive their record.
local function take_slip(job) -- WRITES
  local run = run_of(job)
  if job.corrupt or job.state ~= COMPLETED or run.has_result == 0 or run.result_until <= NOW then return end
  local taken, task = count('slips_taken', 1), task_of(job)
  count('slips', 1)
  call('HSET', P .. 'v:' .. job.id, job.generation,
    pack('>I6I6I2', run.result_until, taken, #task) .. task .. result_of(run))
  enter('slips', pack('>I6I4', taken, job.generation) .. job.id, run.result_until)
end

local function newest_slip(id) -- the newest generation that has one; 0: none has
  local newest = 0
  if booked('slips') > 0 then
    for _, generation in ipairs(call('HKEYS', P .. 'v:' .. id)) do
      newest = math.max(newest, tonumber(generation))
    end
  end
  return newest
end

local function forget_slips(id) -- WRITES; whether there were any
  if booked('slips') == 0 then return false end
  local flat = call('HGETALL', P .. 'v:' .. id)
  for at = 1, #flat, 2 do
    local _, taken = unpacked('>I6I6', flat[at + 1])
    exit('slips', pack('>I6I4', taken, tonumber(flat[at])) .. id)
    count('slips', -1)
  end
  if #flat > 0 then call('UNLINK', P .. 'v:' .. id) end
  return #flat > 0
end

local function forget_keys(id) -- WRITES: all that is stored under an id but its slips
  local keys = {}
  for place, part_of in ipairs({'j', 'r', 'x', 'h', 'f', 'g', 't', 'm', 'p', 'd'}) do
    keys[place] = P .. part_of .. ':' .. id
  end
  call('UNLINK', unpack(keys))
end

local function forget_aliases(id) -- WRITES: ids merged into this job stand for themselves again
  for _, alias in ipairs(beside('SMEMBERS', P .. 'm:' .. id)) do
    if call('HGET', P .. 'aliases', alias) == id then -- it may have been merged elsewhere since
      count('aliases', -call('HDEL', P .. 'aliases', alias))
    end
  end
end

-- WRITES: deletes a job and all that is stored with it.
local function drop(job)
  if has(job.flags, RUNS) then run_of(job) end -- its attempts are told when it is gone
  if job.state < COMPLETED then tell_dependants(job, 0) end
  leave(job)
  number_id(job.number, false)
  free_key(job, false)
  if has(job.flags, EXTRA) then forget_aliases(job.id) end
  if has(job.flags, RUNS) then run_of(job) end -- for the event: it is about to go
  if job.flags % 64 < EXTRA then -- neither rare values nor parents nor dependants
    call('UNLINK', P .. 'j:' .. job.id, P .. 'r:' .. job.id)
  else
    forget_keys(job.id)
  end
  count('removed', 1)
  job.state = nil
  tell(job, TOLD.removed)
end

local function retire(job) -- WRITES: deletes a job whose time is over; a result to be kept longer stays
  take_slip(job)
  drop(job)
end

-- WRITES: ends a job that left its lane: key freed, dependants told, record kept or dropped now.
local function end_left(job, state, kind, keep_ms)
  local run = run_of(job)
  run.ended, run.keep, run.lease = NOW, NOW + keep_ms, 0
  free_key(job, false)
  tell_dependants(job, state)
  save_run(job)
  place(job, state, kind)
  tell_end(job)
  if keep_ms == 0 then retire(job) end
end

local function end_job(job, state, kind, keep_ms) -- WRITES: as `end_left`, of a job that is in its lane
  leave(job)
  end_left(job, state, kind, keep_ms)
end

local function expire(job) -- WRITES
  local _, _, dead_ms = keep_of(job)
  end_job(job, EXPIRED, TOLD.expired, dead_ms)
end

local function refuse(job, fence, write) -- WRITES: notes a stale write on the job: all that it changes
  local key = P .. 'f:' .. job.id
  beside('RPUSH', key, pack('>I6I7', NOW, fence) .. write)
  call('LTRIM', key, -20, -1)
  local is_first = not has(job.flags, EXTRA)
  put_extra(job, 'refused', (tonumber(extra(job, 'refused') or 0) or 0) + 1)
  if is_first then save(job) end
  count('refused', 1)
end

local function is_overdue(job)
  return (job.state < ACTIVE or job.state == BLOCKED) and job.expires > 0 and job.expires <= NOW
end

local function first_state(job) -- of a job that is about to wait, be it for its time
  if has(job.flags, PARENTS) then return BLOCKED end
  return job.due > NOW and SCHEDULED or WAITING
end

-- WRITES: ends a job that cannot be read, so that the others go on. What is left of its bytes stays.
-- `state` and `number` are those of the lane in which it was found; the caller takes it out of that lane.
local function end_unreadable(job, number, state)
  local raw = load(job)
  if raw == '' then call('UNLINK', P .. 'j:' .. job.id) end -- it is of another type: nothing to write into
  if job.number == number and job.state == state then
    leave(job)
    free_key(job, false)
    tell_dependants(job, FAILED)
  else
    moved[state] = moved[state] - 1
    job.flags, job.marks, job.priority, job.due, job.expires = 0, 0, 100, NOW, 0
    job.number, job.created, job.born, job.generation, job.terms = number, NOW, booked('events'), 1, 0
  end
  call('UNLINK', P .. 'r:' .. job.id)
  local run = new_run(job.run and job.run.fence or 0)
  run.ended, run.keep = NOW, NOW + DEFAULT_KEEP[3]
  job.run, job.marks, job.terms = run, 0, 0
  job.flags = with(without(without(job.flags, SUSPECT), CANCEL), UNREADABLE)
  save_run(job)
  put_extra(job, 'reason', 'corrupt')
  place(job, FAILED, TOLD.failed)
  store(job, sub(raw, 1, 16000000), '')
  tell_end(job)
end

local function lose(number, state) -- an id without a record, found in the lane of a state
  moved[state] = moved[state] - 1
  number_id(number, false)
  count('removed', 1)
end

-- WRITES: expires up to `limit` jobs past their ttl; how many, and whether there may be more.
local function expire_overdue(limit)
  if limit <= 0 then return 0, false end
  local numbers = {}
  for at, entry in ipairs(call('ZRANGEBYSCORE', P .. 'ttl', '-inf', NOW, 'LIMIT', 0, limit)) do
    numbers[at] = unpacked('>I6', entry)
  end
  if #numbers == 0 then return 0, false end
  local expired = 0
  for at, id in ipairs(ids_of(numbers)) do
    local job = id and read(id)
    if job and not job.corrupt and job.number == numbers[at] and is_overdue(job) then
      expire(job)
      expired = expired + 1
    elseif not job or not job.is_newer then -- whatever it is, it is found where it waits
      exit('ttl', pack('>I6', numbers[at]))
    end
  end
  flush()
  return expired, #numbers == limit
end
