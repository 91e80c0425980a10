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
      call('HDEL', P .. 'x:' .. job.id, 'reason')
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

  local function settle_one(item) -- WRITES
    local job = read(item[2])
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
