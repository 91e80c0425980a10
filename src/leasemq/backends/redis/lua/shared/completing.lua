-- Completes plain jobs, many with one command; every other settlement goes to settling, in its turn.
--
-- A row is an item {settlement id, job id, generation, fence, nonce, outcome, state, failures, stalls, by a sweep,
-- seen cancel, delay, suspect, result or false, error or false, reason or false, keep or -1, result time or -1},
-- or a group of completions: {failures, stalls, seen cancel, keep, result time or -1, nonces, completions}, what a
-- run of them has in common, and of each {settlement id (8 bytes), generation (4), fence (7), place of its nonce,
-- size of its id (1), size of its result + 1, 0: it has none (4), id, result}, one behind the other.
local endings, settle
do
  local APPLIED, AT_ONCE = 1, 1000
  local ITEM_KINDS = {'t', 't', 'n', 'n', 't', 'n', 'n', 'n', 'n', 'b', 'b', 'n', 'b', 'o', 'o', 'o', 'i', 'i'}
  local GROUP_KINDS = {'n', 'n', 'b', 'n', 'i'}

  local function is_ending(row)
    if type(row) ~= 'table' then return false end
    if #row == 7 then return is_row(row, GROUP_KINDS) and type(row[6]) == 'table' and type(row[7]) == 'string' end
    return is_row(row, ITEM_KINDS) and #row[1] == 8 and row[6] >= 1 and row[6] <= 7 and row[7] >= 1 and row[7] <= 8
  end

  local function parsed_group(row)
    local group = {
      failures = row[1], stalls = row[2], seen = row[3], keep = row[4], result_ms = row[5], next = 1, size = 0,
      settlements = {}, lives = {}, nonces = {}, ids = {}, results = {},
    }
    local packed, at, size = row[7], 1, 0
    while at <= #packed do
      local settlement, life, nonce, id_size, result_size, id_at = unpacked('>c8c11BBI4', packed, at)
      local result_at = id_at + id_size
      at = result_size > 0 and result_at + result_size - 1 or result_at
      size = size + 1
      if at > #packed + 1 or size > AT_ONCE or type(row[6][nonce]) ~= 'string' then error('a completion is cut') end
      group.settlements[size], group.lives[size] = settlement, life
      group.nonces[size], group.ids[size] = row[6][nonce], sub(packed, id_at, result_at - 1)
      group.results[size] = result_size > 0 and sub(packed, result_at, at - 1)
    end
    group.size = size
    return group
  end

  function endings(at) -- the rows that an argument has, groups parsed
    local parsed_rows = {}
    for place_in, row in ipairs(each(at, is_ending)) do
      parsed_rows[place_in] = #row == 7 and parsed_group(row) or row
    end
    return parsed_rows
  end

  -- What the run of a claim says, and what becomes of it when it is completed now; false: it is not its first one.
  -- `raw` is a run without its version.
  local function run_of_claim(raw, group)
    raw = '\1' .. raw
    if #raw < RUN_SIZE then return false end
    local bits = raw:byte(50)
    local nonce_size, incarnation_size, worker_size, result_size = unpacked('>BI2I2I4', raw, 84)
    local worker_at = RUN_SIZE + nonce_size + incarnation_size
    local is_plain = bits == 0 and sub(raw, 57, 64) == NOBODY and result_size == 0
    if not is_plain or #raw ~= worker_at + worker_size then return false end
    return {
      life = FIRST .. sub(raw, 2, 8), nonce = sub(raw, RUN_SIZE + 1, RUN_SIZE + nonce_size),
      incarnation = sub(raw, RUN_SIZE + nonce_size + 1, worker_at), ended = 0, endings = {},
      told = pack('>BB', TOLD.completed, COMPLETED) .. sub(raw, 9, 12) .. FIRST,
      front = sub(raw, 2, 12) .. pack('>I4I4', group.failures, group.stalls) .. sub(raw, 21, 24)
        .. '\0\0\0\0\0\0' .. sub(raw, 31, 48) .. '\1\0' .. NOW_PACKED,
      sizes = sub(raw, 84, 88), names = sub(raw, RUN_SIZE + 1),
    }
  end

  local function ending_of(run, group, result) -- what follows the settlement's id in a completed run, but the result
    local size = result and #result or -1
    local ending = run.endings[size]
    if not ending then
      ending = pack('>I6I6I6B', NOW, group.keep_until, group.result_until, result and 1 or 0) .. run.sizes
        .. pack('>I4', math.max(size, 0)) .. run.names
      run.endings[size] = ending
    end
    return ending
  end

  local function fetch(group) -- READS the runs of a group
    local keys, ids, claims = {}, group.ids, {}
    for at = 1, group.size do
      keys[at] = P .. 'r:' .. ids[at]
    end
    local raws, runs = group.size > 0 and call('MGET', unpack(keys)) or {}, {}
    for at = 1, group.size do
      local raw = raws[at]
      runs[at] = false
      if raw and sub(raw, 1, 2) == '\2\3' then
        local rest = sub(raw, PLAIN_MORE + 2)
        if claims[rest] == nil then claims[rest] = run_of_claim(rest, group) end
        runs[at] = claims[rest]
      end
    end
    group.keys, group.raws, group.runs, group.claims, group.seen_ids = keys, raws, runs, claims, {}
    group.keep_until, group.result_until = NOW + group.keep, group.result_ms >= 0 and NOW + group.result_ms or 0
    local until_result = math.min(group.keep_until, group.result_until)
    group.kept = digits(group.keep_until)
    group.kept_with_result = group.result_until > 0 and digits(until_result) or group.kept
    group.flat, group.left, group.lapses, group.ends = {}, {}, {}, {}
  end

  local function write(group) -- WRITES those that were completed
    if #group.left == 0 then return end
    call('MSET', unpack(group.flat))
    call('ZREM', P .. 'leases', unpack(group.left))
    call('ZADD', P .. 'kept', unpack(group.lapses))
    call('ZADD', P .. 'ended:5', unpack(group.ends))
    for _, run in pairs(group.claims) do
      if run and run.ended > 0 then
        let_go(run.incarnation, run.nonce, run.ended)
        run.ended = 0
      end
    end
    local size = #group.left
    moved[ACTIVE], moved[COMPLETED] = moved[ACTIVE] - size, moved[COMPLETED] + size
    group.flat, group.left, group.lapses, group.ends = {}, {}, {}, {}
  end

  local function completed(group, at, now_digits) -- whether it was plain and is completed, but for `write`
    local run, raw, id, result = group.runs[at], group.raws[at], group.ids[at], group.results[at]
    local is_its = run and not group.seen_ids[id] and run.life == group.lives[at]
      and run.nonce == group.nonces[at]
    if not is_its then return false end
    local number = sub(raw, 9, 14)
    local entry = pack('>I6c6', next_place(), number)
    local flat, left, lapses, ends = group.flat, group.left, group.lapses, group.ends
    local size = #left
    flat[size * 2 + 1] = group.keys[at]
    flat[size * 2 + 2] = '\2\5' .. entry .. NOW_PACKED .. run.front .. group.settlements[at]
      .. ending_of(run, group, result) .. (result or '')
    left[size + 1] = sub(raw, 3, 14)
    lapses[size * 2 + 1], lapses[size * 2 + 2] = result and group.kept_with_result or group.kept, entry
    ends[size * 2 + 1], ends[size * 2 + 2] = now_digits, number
    run.ended = run.ended + 1
    events[#events + 1] = run.told .. size_of(id) .. id
    if is_heard then ended[#ended + 1] = FIRST .. id end
    group.seen_ids[id] = true
    return true
  end

  local function item_of(group, at) -- as one of those that settling takes
    local generation, fence = unpacked('>I4I7', group.lives[at])
    return {
      group.settlements[at], group.ids[at], generation, fence, group.nonces[at], 1,
      COMPLETED, group.failures, group.stalls, 0, group.seen, 0, 0, group.results[at], false, false, group.keep,
      group.result_ms,
    }
  end

  local function settle_group(group, answers, other) -- WRITES; false: one is not plain, and `other` is nil
    if not group.runs then fetch(group) end
    local now_digits = digits(NOW)
    for at = group.next, group.size do
      if completed(group, at, now_digits) then
        answers[#answers + 1] = APPLIED
      else
        write(group)
        group.next = at
        if not other then return false end
        group.seen_ids[group.ids[at]] = true
        answers[#answers + 1] = other(item_of(group, at))
      end
    end
    group.next = group.size + 1
    write(group)
    return true
  end

  local answers, done = {}, 0

  -- WRITES, all but `finish`. Answers a byte per settlement; nil: the next one is for `other`, which is nil; go on
  -- with the same rows, and it.
  function settle(parsed_rows, other)
    if is_heard == nil then is_heard = call('EXISTS', P .. 'interest') == 1 end
    for place_in = done + 1, #parsed_rows do
      local row = parsed_rows[place_in]
      if row.ids then
        if not settle_group(row, answers, other) then return nil end
      elseif other then
        answers[#answers + 1] = other(row)
      else
        return nil
      end
      done = place_in
    end
    for at = 1, #answers do
      answers[at] = string.char(answers[at])
    end
    return table.concat(answers)
  end
end
