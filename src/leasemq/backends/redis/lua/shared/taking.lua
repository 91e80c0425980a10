-- Hands out waiting jobs under new fences: as the memory backend's `claim`.
--
-- A lease is {id, record, run, checkpoint or false}, both as they are stored after the claim.
local claim, leases_of, know_terms, has_suspect, with_nonce
do
  local LOOK = 64 -- entries of a bucket looked at in one go

  local function lease_of(job) -- READS what an active job is to be run with
    return {job.id, load(job), run_of(job).raw, extra(job, 'checkpoint')}
  end

  -- The run of every job of one claim that was never claimed before: the same for all of them.
  local function first_run(lease_ms, claimant)
    local run = new_run(NOW * 1000)
    run.attempts, run.lease, run.claimed, run.renewed = 1, NOW + lease_ms, NOW, NOW
    run.nonce, run.incarnation, run.worker = claimant.nonce, claimant.incarnation, claimant.worker
    run.raw = packed_run(run)
    return run
  end

  -- WRITES: starts a job that was never claimed and has nothing rare. What it writes is as in `start`.
  local function start_plainly(job, run)
    noted(lanes, bucket_of(job), job.number, false)
    if job.expires > 0 then exit('ttl', number_entry(job)) end
    moved[WAITING], moved[ACTIVE] = moved[WAITING] - 1, moved[ACTIVE] + 1
    job.run, job.state, job.flags, job.place, job.since = run, ACTIVE, RUNS, next_place(), NOW
    enter('leases', entry_of(job), run.lease)
    hold(run.incarnation, run.nonce, entry_of(job))
    call('SET', P .. 'r:' .. job.id, run.raw)
    record_event(TOLD.claimed, ACTIVE, 1, job.generation, job.id)
    save(job)
  end

  local function start(job, lease_ms, claimant) -- WRITES: the next attempt of a waiting job
    if job.flags == 0 and job.marks <= RARE then
      if not claimant.first_run then claimant.first_run = first_run(lease_ms, claimant) end
      start_plainly(job, claimant.first_run)
      return
    end
    leave(job)
    local run = run_of(job)
    if has(job.flags, RUNS) then bank_attempt(job) end
    run.attempts = run.attempts + 1
    run.noted = 0
    run.fence = math.max(run.fence + 1, NOW * 1000)
    run.nonce, run.incarnation, run.worker = claimant.nonce, claimant.incarnation, claimant.worker
    run.lease, run.claimed, run.renewed = NOW + lease_ms, NOW, NOW
    run.outcome, run.attempt_ended, run.settled_by = 0, 0, NOBODY
    run.bits = has(job.flags, REPLAYS) and AFTER_REPLAY or 0
    job.flags = without(job.flags, REPLAYS)
    run.result, run.has_result = '', 0
    free_key(job, true)
    save_run(job)
    place(job, ACTIVE, TOLD.claimed)
  end

  local function not_overdue(numbers) -- those of waiting jobs that are not past their ttl, without reading the jobs
    local entries, fresh = {}, {}
    for at, number in ipairs(numbers) do
      entries[at] = pack('>I6', number)
    end
    if #entries == 0 then return fresh end
    for at, expires in ipairs(call('ZMSCORE', P .. 'ttl', unpack(entries))) do
      if not expires or tonumber(expires) > NOW then fresh[#fresh + 1] = numbers[at] end
    end
    return fresh
  end

  -- WRITES: a job of a lane's bucket that can be taken; nil: it is gone, or cannot be read, and then it is ended,
  -- so that the others go on.
  local function takeable(id, number, lane, key, bucket)
    local job = id and read_whole(id)
    if job and job.is_newer then return nil end
    if job and not job.corrupt and has(job.flags, RUNS) then run_of(job) end
    if job and not job.corrupt and not terms_blob(job) then job.corrupt = true end
    local is_here = job and job.number == number and job.state == WAITING
    if is_here and not job.corrupt then return job end
    noted(lanes, key, number, false)
    buckets[key] = {P .. lane, tonumber(bucket)}
    if job and job.corrupt then
      end_unreadable(job, number, WAITING)
    elseif not job then
      lose(number, WAITING)
    end
    return nil
  end

  -- WRITES, see `takeable`: the next `limit` jobs of a lane, whole, in its order. Those past their ttl are passed
  -- over; `has_overdue` says that there may be any left.
  local function first_ready(lane, limit, has_overdue)
    local found, prefix, at = {}, lane == 'ready' and 'w:' or 's:', 0
    while #found < limit do
      local bucket = call('ZRANGE', P .. lane, at, at)[1]
      if not bucket then break end
      local key, first, is_over = P .. prefix .. bucket, 0, false
      while not is_over and #found < limit do
        local last = first + (has_overdue and LOOK or math.min(LOOK, limit - #found)) - 1
        local numbers = call('ZRANGE', key, first, last)
        is_over = #numbers < last - first + 1
        for place_in, number in ipairs(numbers) do
          numbers[place_in] = tonumber(number)
        end
        if has_overdue then numbers = not_overdue(numbers) end
        for place_in, id in ipairs(ids_of(numbers)) do
          if #found < limit then found[#found + 1] = takeable(id, numbers[place_in], lane, key, bucket) end
        end
        first = last + 1
      end
      at = at + 1
    end
    return found
  end

  function has_suspect() -- whether a suspect waits that is not past its ttl
    local at = 0
    if call('EXISTS', P .. 'suspects') == 0 then return false end
    while true do
      local bucket = call('ZRANGE', P .. 'suspects', at, at)[1]
      if not bucket then return false end
      local numbers = call('ZRANGE', P .. 's:' .. bucket, 0, -1)
      for each, number in ipairs(numbers) do
        numbers[each] = tonumber(number)
      end
      for each, id in ipairs(ids_of(numbers)) do
        local job = id and read(id)
        local is_here = job and not job.corrupt and job.number == numbers[each] and job.state == WAITING
        if is_here and (job.expires == 0 or job.expires > NOW) then return true end
      end
      at = at + 1
    end
  end

  -- Whether this incarnation is the one that should run empty for a suspect; it stays so for one lease.
  local function reserve_suspect(incarnation, lease_ms)
    if book.suspect_for ~= incarnation and booked('suspect_until') > NOW then return false end
    amend('suspect_for', incarnation)
    amend('suspect_until', NOW + lease_ms)
    return true
  end

  function with_nonce(nonce) -- the active jobs of one claim, in the order of it; READS
    local numbers, found = numbers_held(nonce), {}
    for at, id in ipairs(ids_of(numbers)) do
      local job = id and read_whole(id)
      local is_its = job and not job.corrupt and job.number == numbers[at] and job.state == ACTIVE
      if is_its and run_of(job).nonce == nonce and not job.corrupt then found[#found + 1] = job end
    end
    table.sort(found, function(one, other) return one.place < other.place end)
    return found
  end

  function leases_of(jobs)
    local leases = {}
    for at, job in ipairs(jobs) do
      leases[at] = lease_of(job)
    end
    return leases
  end


  function know_terms(jobs)
    for _, job in ipairs(jobs) do
      terms_blob(job)
    end
  end

  local function claim_suspect(lease_ms, claimant, limit, has_overdue) -- WRITES; nil: it is not to be handed out now
    local suspects = claimant.takes_suspect and limit > 0 and first_ready('suspects', 1, has_overdue) or {}
    if not suspects[1] then return nil end
    start(suspects[1], lease_ms, claimant)
    amend('suspect_for', '')
    amend('suspect_until', 0)
    flush()
    return {leases_of(suspects), terms_told(), next_due(), -1, 0, 0, ''}
  end

  local function claim_ready(limit, lease_ms, claimant, begun, has_overdue, suspect_waits) -- WRITES
    local ready = first_ready('ready', limit - begun.count, has_overdue)
    for _, job in ipairs(ready) do
      start(job, lease_ms, claimant)
    end
    flush()
    local is_short, leases = begun.count + #ready < limit, begun.leases
    for _, lease in ipairs(leases_of(ready)) do
      leases[#leases + 1] = lease
    end
    suspect_waits = suspect_waits and reserve_suspect(claimant.incarnation, lease_ms)
    return {
      leases, terms_told(), next_due(), is_short and next_lapse() or -1, is_short and EMPTY or 0,
      suspect_waits and 1 or 0, begun.run,
    }
  end

  -- WRITES, all but `finish`; begun: what starting has done of it. Answers {leases (each a list, or id and record of
  -- a plain job, one after the other), terms, next due or -1, next lapse or -1, reason or 0, suspect waits, run of
  -- the plain ones}.
  function claim(limit, lease_ms, claimant, begun)
    if begun then return claim_ready(limit, lease_ms, claimant, begun, false, false) end
    local mine = with_nonce(claimant.nonce)
    if #mine > 0 then
      know_terms(mine)
      return {leases_of(mine), terms_told(), next_due(), -1, 0, 0, ''}
    end
    local _, has_overdue = expire_overdue(limit)
    if book.paused == '1' then return {{}, {}, next_due(), next_lapse(), PAUSED, 0, ''} end
    local suspect_waits = has_suspect()
    local alone = suspect_waits and claim_suspect(lease_ms, claimant, limit, has_overdue)
    if alone then return alone end
    return claim_ready(limit, lease_ms, claimant, {count = 0, leases = {}, run = ''}, has_overdue, suspect_waits)
  end
end
