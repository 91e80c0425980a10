-- Ends attempts under their fences: as the memory backend's `settle`, in its order of comparison.
local settle_one
do
  local GONE, REPLAYED, LOST, HELD, CANCEL_REQUESTED, APPLIED = 6, 2, 5, 3, 4, 1
  local OUTCOME_TOLD = {
    TOLD.completed, TOLD.retried, TOLD.failed, TOLD.released, TOLD.snoozed, TOLD.cancelled, TOLD.stalled,
  }
  local WRITES = {'completed', 'retried', 'failed', 'released', 'snoozed', 'cancelled', 'stalled'}
  local RELEASED, STALLED = 4, 7

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

  function settle_one(item) -- WRITES; 0: that job cannot be read
    local raw = try('GETRANGE', P .. 'j:' .. item[2], 0, HEAD_SIZE - 1)
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
end
