-- How one job is stored, and how it is read. Layout: see layout.py, which has the same formats.
--
-- j:<id>  the head (HEAD_SIZE bytes), the payload, the rare block (with the mark RARE); or, of a
--         plain job, a short head (PLAIN_SIZE bytes) and the payload
-- r:<id>  from the first claim on: counters, fence, newest attempt, end, result
-- x:<id>  a hash of rare values; h: f: g: t: lists of attempts, refused writes, log lines, trail;
-- m:<id>  ids that were merged into it; p:<id> open parents; d:<id> dependants
local HEAD, HEAD_SIZE = '>BBBBBI6I6I7I6I5I6I6I4I2I3', 56
local HEAD_MOVES = '>BBBBI6I6I7I6' -- what a move rewrites, from the second byte on
local RARE_HEAD, RARE_SIZE = '>c8I6I2I6BBI4', 28
-- Flags of the head
local SUSPECT, CANCEL, RUNS, EXTRA, PARENTS, DEPENDANTS, UNREADABLE, REPLAYS = 1, 2, 4, 8, 16, 32, 64, 128
-- Marks of the head
local RARE, UNIQUE, TRAIL = 1, 2, 4
-- Bits of an attempt
local AFTER_REPLAY, WITH_ERROR = 1, 2

local function has(flags, flag)
  return flags % (flag + flag) >= flag
end

local function with(flags, flag)
  return has(flags, flag) and flags or flags + flag
end

local function without(flags, flag)
  return has(flags, flag) and flags - flag or flags
end

-- What is said of a key of another type by commands that cannot read it.
local NOTHING = {HGET = false, HGETALL = {}, LRANGE = {}, LLEN = 0, SMEMBERS = {}, HEXISTS = 0, HLEN = 0}

-- A command on what lies beside a record. If it is of another type, somebody else wrote there: it goes.
local function beside(command, key, ...)
  local answer = try(command, key, ...)
  if type(answer) ~= 'table' or not answer.err then return answer end
  if type(try('UNLINK', key)) == 'number' then return call(command, key, ...) end
  return NOTHING[command]
end

-- THE RUN: what exists from the first claim on. nil and `corrupt` set on the job: it cannot be read.
local function parsed_run(raw) -- of a long record
  if type(raw) ~= 'string' or #raw < RUN_SIZE then return nil end
  local version, fence, attempts, failures, stalls, replays, lease, renewed, noted_last, claimed, outcome, bits,
    attempt_ended, settled_by, ended_ms, keep, result_until, has_result, nonce_size, incarnation_size, worker_size,
    result_size = unpacked(RUN, raw)
  local incarnation_at = RUN_SIZE + 1 + nonce_size
  local worker_at = incarnation_at + incarnation_size
  local result_at = worker_at + worker_size
  if version ~= 1 or outcome > 7 or fence > 2 ^ 53 or #raw ~= result_at + result_size - 1 then return nil end
  return {
    raw = raw, fence = fence, attempts = attempts, failures = failures, stalls = stalls, replays = replays,
    lease = lease, renewed = renewed, noted = noted_last, claimed = claimed, outcome = outcome, bits = bits,
    attempt_ended = attempt_ended, settled_by = settled_by, ended = ended_ms, keep = keep,
    result_until = result_until, has_result = has_result, nonce = sub(raw, RUN_SIZE + 1, incarnation_at - 1),
    incarnation = sub(raw, incarnation_at, worker_at - 1), worker = sub(raw, worker_at, result_at - 1),
    result_at = result_at, result = nil,
  }
end

local function new_run(fence) -- of a job that was never claimed in this life
  return {
    fence = fence, attempts = 0, failures = 0, stalls = 0, replays = 0, lease = 0, renewed = 0, noted = 0,
    claimed = 0, outcome = 0, bits = 0, attempt_ended = 0, settled_by = NOBODY, ended = 0, keep = 0,
    result_until = 0, has_result = 0, nonce = '', incarnation = '', worker = '', result = '',
  }
end

local function more_of(job) -- how far what a run says lies behind where it lies in that of a long record
  return job.head_size == PLAIN_SIZE and PLAIN_MORE or 0
end

local function result_of(run)
  return run.result or sub(run.raw, run.result_at)
end

-- As `parsed`, of a plain record: its run, if it has one, says how far it is. READS
local function parsed_plain(id, raw)
  local _, state, priority, place, since, number, created, born, terms, size = unpacked(PLAIN, raw)
  local job = {
    id = id, state = state, flags = 0, marks = 0, priority = priority, place = place, since = since, due = created,
    expires = 0, number = number, created = created, born = born, generation = 1, terms = terms, size = size,
    head_size = PLAIN_SIZE, corrupt = state ~= WAITING, raw = nil, rare = nil, run = nil,
  }
  local run = try('GET', P .. 'r:' .. id)
  if type(run) ~= 'string' or #run <= RUN_SIZE + PLAIN_MORE or unpacked('>I6', run, 9) ~= number then
    job.corrupt = job.corrupt or type(run) == 'table'
    return job
  end
  local version, state_now, place_now, _, since_now = unpacked(PLAIN_RUN, run)
  job.state, job.place, job.since, job.flags = state_now, place_now, since_now, RUNS
  job.run = parsed_run('\1' .. sub(run, PLAIN_MORE + 2))
  job.corrupt = job.corrupt or version ~= 2 or (state_now ~= ACTIVE and state_now ~= COMPLETED) or not job.run
  if job.run then
    job.run.raw, job.run.result = run, result_of(job.run)
  else
    job.run = new_run(0)
  end
  return job
end

-- A table of the head's fields, or one that is `corrupt`. `raw` is the head or the whole record. One that a newer
-- release wrote cannot be read either (`is_newer`), but is not ended for it: it stays where it is (P-85).
local function parsed(id, raw)
  local form = type(raw) == 'string' and raw:byte() or 0
  if form > 2 and form < 128 then return {id = id, corrupt = true, is_newer = true, raw = raw} end
  if form == 2 and #raw >= PLAIN_SIZE then return parsed_plain(id, raw) end
  if type(raw) ~= 'string' or #raw < HEAD_SIZE then return {id = id, corrupt = true, raw = raw} end
  local version, state, flags, marks, priority, place, since, due, expires, number, created, born, generation,
    terms, size = unpacked(HEAD, raw)
  return {
    id = id, state = state, flags = flags, marks = marks, priority = priority, place = place, since = since,
    due = due, expires = expires, number = number, created = created, born = born, generation = generation,
    terms = terms, size = size, head_size = HEAD_SIZE,
    corrupt = version ~= 1 or state < 1 or state > 8 or has(flags, UNREADABLE),
    raw = nil, rare = nil, run = nil, -- what may come is given its room here, or the table would be made anew
  }
end

local function is_whole(job, raw) -- whether the payload and the rare block are as long as the head says
  local rest = #raw - job.head_size - job.size
  return not job.corrupt and (rest == 0 or (rest >= RARE_SIZE and has(job.marks, RARE)))
end

local function read(id) -- the head alone; nil: there is no record
  local raw = try('GETRANGE', P .. 'j:' .. id, 0, HEAD_SIZE - 1)
  if raw == '' then return nil end
  return parsed(id, raw)
end

local function read_whole(id) -- head, payload and rare block; nil: there is no record
  local raw = try('GET', P .. 'j:' .. id)
  if not raw then return nil end
  local job = parsed(id, raw)
  if not job.corrupt and not is_whole(job, raw) then job.corrupt = true end
  job.raw = raw
  return job
end

local function load(job) -- the whole record of a job whose head was read
  if type(job.raw) ~= 'string' then
    local raw = try('GET', P .. 'j:' .. job.id)
    job.raw = type(raw) == 'string' and raw or ''
  end
  return job.raw
end

local function payload_of(job)
  return sub(load(job), job.head_size + 1, job.head_size + job.size)
end

-- The rare block as a table; nil: it has none, or it cannot be read.
local function parsed_rare(block)
  if #block < RARE_SIZE then return nil end
  local rare = {}
  rare.request, rare.ttl, rare.trail, rare.window, rare.mode, rare.ends, rare.creator_generation =
    unpacked(RARE_HEAD, block)
  local names = {'key', 'creator_queue', 'creator_id', 'terms', 'overrides', 'headers'}
  local at = RARE_SIZE + 1
  for _, name in ipairs(names) do
    if at + 3 > #block then return nil end
    local size = unpacked('>I4', block, at)
    if at + 3 + size > #block then return nil end
    rare[name] = sub(block, at + 4, at + 3 + size)
    at = at + 4 + size
  end
  return rare
end

local function rare_of(job)
  if job.rare == nil then
    job.rare = has(job.marks, RARE) and parsed_rare(sub(load(job), job.head_size + job.size + 1)) or false
  end
  return job.rare or nil
end

local function packed_rare(rare)
  local block = {
    pack(RARE_HEAD, rare.request, rare.ttl, rare.trail, rare.window, rare.mode, rare.ends, rare.creator_generation),
  }
  for _, name in ipairs({'key', 'creator_queue', 'creator_id', 'terms', 'overrides', 'headers'}) do
    block[#block + 1] = pack('>I4', #rare[name]) .. rare[name]
  end
  return table.concat(block)
end

local function store(job, payload, rare) -- WRITES the whole record; rare is a block or ''
  job.size, job.rare, job.head_size = #payload, nil, HEAD_SIZE
  job.raw = pack(
    HEAD, 1, job.state, job.flags, job.marks, job.priority, job.place, job.since, job.due, job.expires,
    job.number, job.created, job.born, job.generation, job.terms, job.size
  ) .. payload .. rare
  call('SET', P .. 'j:' .. job.id, job.raw)
end

local function terms_blob(job) -- nil: it cannot be read
  local number = job.terms
  if number == 0 then
    local rare = rare_of(job)
    return rare and #rare.terms >= TERM_SIZE and rare.terms or nil
  end
  return numbered_terms(number) or nil
end

local DEFAULT_KEEP = {86400000, 172800000, 2592000000} -- where it cannot be read

local function keep_of(job) -- how long its result, its record and its dead letter are kept, in ms
  local blob = not job.corrupt and terms_blob(job)
  if not blob or #blob < TERM_SIZE then return unpack(DEFAULT_KEEP) end
  local _, result_ms, record_ms, dead_ms = unpacked('>I4I6I6I6', blob)
  return result_ms, record_ms, dead_ms
end

local function task_of(job)
  local blob = terms_blob(job)
  return blob and sub(blob, TERM_SIZE + 1) or ''
end

local function run_of(job) -- what its run is; one that was never claimed has a new one
  if not job.run then
    if has(job.flags, RUNS) then
      job.run = parsed_run(try('GET', P .. 'r:' .. job.id))
      if not job.run then
        job.corrupt, job.run = true, new_run(0)
      end
    else
      job.run = new_run(0)
    end
  end
  return job.run
end

local function packed_run(run)
  local result = result_of(run)
  return pack(
    RUN, 1, run.fence, run.attempts, run.failures, run.stalls, run.replays, run.lease, run.renewed, run.noted,
    run.claimed, run.outcome, run.bits, run.attempt_ended, run.settled_by, run.ended, run.keep, run.result_until,
    run.has_result, #run.nonce, #run.incarnation, #run.worker, #result
  ) .. run.nonce .. run.incarnation .. run.worker .. result
end

local function save_run(job) -- WRITES; sets the flag in memory: the head is to be saved after
  local run = job.run
  run.result = result_of(run)
  run.raw = packed_run(run)
  if job.head_size == PLAIN_SIZE then
    run.raw = pack(PLAIN_RUN, 2, job.state, job.place, job.number, job.since) .. sub(run.raw, 2)
  end
  call('SET', P .. 'r:' .. job.id, run.raw)
  job.flags = with(job.flags, RUNS)
end

local function save(job) -- WRITES what moves of the head; a plain record becomes a long one
  if job.head_size == PLAIN_SIZE then
    store(job, payload_of(job), '')
    if has(job.flags, RUNS) then save_run(job) end
    return
  end
  local moves = pack(
    HEAD_MOVES, job.state, job.flags, job.marks, job.priority, job.place, job.since, job.due, job.expires
  )
  call('SETRANGE', P .. 'j:' .. job.id, 1, moves)
  if job.raw then job.raw = sub(job.raw, 1, 1) .. moves .. sub(job.raw, #moves + 2) end
end

local function attempts_of(job)
  if job.corrupt and not job.run then return 0 end
  return run_of(job).attempts
end

local function put_extra(job, ...) -- WRITES rare values: name, value, ...; the head is to be saved after
  beside('HSET', P .. 'x:' .. job.id, ...)
  job.flags = with(job.flags, EXTRA)
end

local function extra(job, name) -- false: there is none
  return has(job.flags, EXTRA) and beside('HGET', P .. 'x:' .. job.id, name)
end

local PAST = '>I4I7I6I6I6BBc8BI2I2I4'

-- WRITES the newest attempt into the history, so that the run can hold the next one.
local function bank_attempt(job)
  local run = job.run
  if run.claimed == 0 then return end
  local failure = has(run.bits, WITH_ERROR) and extra(job, 'error') or ''
  local kept = extra(job, 'settled') or ''
  beside('RPUSH', P .. 'h:' .. job.id, pack(
    PAST, run.attempts, run.fence, run.claimed, run.renewed, run.attempt_ended, run.outcome, run.bits,
    run.settled_by, #run.nonce, #run.incarnation, #run.worker, #failure
  ) .. run.nonce .. run.incarnation .. run.worker .. failure)
  call('LTRIM', P .. 'h:' .. job.id, -99, -1)
  put_extra(job, 'settled', sub(kept .. run.settled_by, -99 * 8))
  run.claimed, run.outcome, run.bits, run.settled_by, run.attempt_ended = 0, 0, 0, NOBODY, 0
end

local function was_ended_by(job, settlement) -- whether this settlement ended one of the kept attempts
  if run_of(job).settled_by == settlement then return true end
  local kept = extra(job, 'settled')
  for at = 1, kept and #kept or 0, 8 do
    if sub(kept, at, at + 7) == settlement then return true end
  end
  return false
end
