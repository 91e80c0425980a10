-- Ends attempts under their fences: as the memory backend's `settle`, in its order of comparison.
--
-- An item is {settlement id, job id, generation, fence, nonce, outcome, state, failures, stalls, by a sweep,
-- seen cancel, delay, suspect, result or false, error or false, reason or false, keep or -1, result time or -1}.
local settle, endings
do
  local GONE, REPLAYED, LOST, HELD, CANCEL_REQUESTED, APPLIED = 6, 2, 5, 3, 4, 1
  local OUTCOME_TOLD = {
    TOLD.completed, TOLD.retried, TOLD.failed, TOLD.released, TOLD.snoozed, TOLD.cancelled, TOLD.stalled,
  }
  local WRITES = {'completed', 'retried', 'failed', 'released', 'snoozed', 'cancelled', 'stalled'}
  local RELEASED, STALLED = 4, 7

  local ENDING = {'t', 't', 'n', 'n', 't', 'n', 'n', 'n', 'n', 'b', 'b', 'n', 'b', 'o', 'o', 'o', 'i', 'i'}

  local function is_ending(item) -- what the kinds of its fields do not say
    return #item[1] == 8 and item[6] >= 1 and item[6] <= 7 and item[7] >= 1 and item[7] <= 8
  end

  local function is_held_by(job, fence, nonce)
    if job.state ~= ACTIVE then return false end
    local run = run_of(job)
    return run.fence == fence and run.nonce == nonce
  end

  local function apply(job, item) -- WRITES
    local run, outcome, state = job.run, item[6], item[7]
    if outcome == STALLED then count('stalls', 1) end
    if outcome == RELEASED then count('releases', 1) end
    leave(job)
    run.attempt_ended, run.outcome, run.settled_by = NOW, outcome, item[1]
    run.failures, run.stalls, run.lease = item[8], item[9], 0
    job.flags = item[13] == 1 and with(job.flags, SUSPECT) or without(job.flags, SUSPECT)
    if item[15] then
      run.bits = with(run.bits, WITH_ERROR)
      put_extra(job, 'error', item[15])
    end
    if item[16] then
      put_extra(job, 'reason', item[16])
    elseif has(job.flags, EXTRA) then
      beside('HDEL', P .. 'x:' .. job.id, 'reason')
    end
    local told = OUTCOME_TOLD[outcome]
    if state < COMPLETED then
      job.due = NOW + item[12]
      save_run(job)
      place(job, state, told)
      return
    end
    run.has_result, run.result = item[14] and 1 or 0, item[14] or ''
    run.result_until = item[18] >= 0 and NOW + item[18] or 0
    end_left(job, state, outcome == STALLED and TOLD.failed or told, math.max(item[17], 0))
  end

  local function plain_run(id, item) -- run, attempts, incarnation; nil: not held by the item's fence, or not plain
    local run, nonce = try('GET', P .. 'r:' .. id), item[5]
    if type(run) ~= 'string' or #run < RUN_SIZE then return nil end
    local run_version, fence, attempts = unpacked('>BI7I4', run)
    local nonce_size, incarnation_size, worker_size, result_size = unpacked('>BI2I2I4', run, 84)
    local is_its = run_version == 1 and fence == item[4] and nonce_size == #nonce
      and sub(run, RUN_SIZE + 1, RUN_SIZE + nonce_size) == nonce and sub(run, 57, 64) == NOBODY
    if not is_its or #run ~= RUN_SIZE + nonce_size + incarnation_size + worker_size or result_size ~= 0 then
      return nil
    end
    return run, attempts, sub(run, RUN_SIZE + nonce_size + 1, RUN_SIZE + nonce_size + incarnation_size)
  end

  -- WRITES: completes a job that has nothing rare, as most do, without the tables that the others need; false: it
  -- is another, or not to be completed, and nothing was done. What it compares and writes is as below.
  local function complete_plainly(item, raw)
    local id, keep, result = item[2], item[17], item[14] or ''
    if #raw < HEAD_SIZE or item[7] ~= COMPLETED or keep <= 0 or item[13] == 1 or item[15] or item[16] then
      return false
    end
    local version, state, flags, marks, priority, place_before, _, due, expires, number, _, _, generation =
      unpacked(HEAD, raw)
    local is_plain = version == 1 and state == ACTIVE and flags == RUNS and marks <= RARE
    if not is_plain or generation ~= item[3] or item[10] == 1 or item[6] ~= 1 then return false end
    local run, attempts, incarnation = plain_run(id, item)
    if not run then return false end
    local keep_until, result_until = NOW + keep, item[18] >= 0 and NOW + item[18] or 0
    local has_result, place_after = item[14] and 1 or 0, next_place()
    exit('leases', pack('>I6I6', place_before, number))
    part('c:' .. item[5], number)
    part('o:' .. incarnation, number)
    enter('kept', pack('>I6I6', place_after, number),
      (has_result == 0 or result_until == 0) and keep_until or math.min(keep_until, result_until))
    enter('ended:5', pack('>I6', number), NOW)
    moved[ACTIVE], moved[COMPLETED] = moved[ACTIVE] - 1, moved[COMPLETED] + 1
    call('SET', P .. 'r:' .. id, table.concat({
      sub(run, 1, 12), pack('>I4I4', item[8], item[9]), sub(run, 21, 24), '\0\0\0\0\0\0', sub(run, 31, 48),
      pack('>BBI6c8I6I6I6B', 1, 0, NOW, item[1], NOW, keep_until, result_until, has_result), sub(run, 84, 88),
      pack('>I4', #result), sub(run, RUN_SIZE + 1), result,
    }))
    call('SETRANGE', P .. 'j:' .. id, 1, pack(
      HEAD_MOVES, COMPLETED, flags, marks, priority, place_after, NOW, due, expires
    ))
    record_event(TOLD.completed, COMPLETED, attempts, generation, id)
    tell_end({id = id, generation = generation})
    return true
  end

  local function settle_one(item) -- WRITES
    local raw = try('GETRANGE', P .. 'j:' .. item[2], 0, HEAD_SIZE - 1)
    if type(raw) == 'string' and complete_plainly(item, raw) then return APPLIED end
    local job = raw ~= '' and parsed(item[2], raw)
    if not job then return GONE end
    if job.corrupt and not has(job.flags or 0, UNREADABLE) then return 0 end
    if job.generation ~= item[3] then return GONE end
    if was_ended_by(job, item[1]) then return REPLAYED end
    if not is_held_by(job, item[4], item[5]) then
      if item[10] == 0 and not job.corrupt then refuse(job, item[4], WRITES[item[6]]) end
      return LOST
    end
    if job.corrupt then return 0 end
    if item[10] == 1 and job.run.lease > NOW then return HELD end
    if has(job.flags, CANCEL) and item[11] == 0 then return CANCEL_REQUESTED end
    apply(job, item)
    return APPLIED
  end

  function settle(items) -- WRITES, all but `finish`; an answer per item, 0: that job cannot be read
    local answers = {}
    for at, item in ipairs(items) do
      answers[at] = settle_one(item)
    end
    return answers
  end

  function endings(at) -- the items that an argument has
    return rows(at, ENDING, is_ending)
  end
end
