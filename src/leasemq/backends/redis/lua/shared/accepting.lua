-- Stores new jobs, or answers what stands for them already: as the memory backend's `enqueue`.
--
-- An item is {id, priority + 100, delay, due or -1, ttl or -1, place in the list of terms, marks, reuse,
-- at most or -1, rare block, payload, parents or false}; reuse has the bit 2^(state - 5) of each state.
-- An answer is {acceptance, generation, state, same payload, id or false: the asked one}.
local ITEM = {'t', 'n', 'n', 'i', 'i', 'n', 'n', 'n', 'i', 't', 't'}

local function is_item(terms) -- a check of what the kinds of an item's fields do not say
  return function(item)
    local marks, parents = item[7], item[12]
    if not terms[item[6]] or item[2] > 200 or marks > 7 then return false end
    if marks > 0 and not (has(marks, RARE) and parsed_rare(item[10])) then return false end
    if parents and type(parents) ~= 'table' then return false end
    for _, parent in ipairs(parents or {}) do
      if not is_row(parent, {'t', 't', 'n'}) then return false end
    end
    return true
  end
end

local accept, accept_group, mixed
do
  local CREATED, EXISTING, SKIPPED, REPLACED, DEBOUNCED, BROKEN = 1, 2, 3, 4, 5, 0

  local function gives_way(known, item, rare) -- whether the request may replace this record
    if known.state < COMPLETED or not has(item[8], 2 ^ (known.state - COMPLETED)) then return false end
    if not rare or rare.request == NOBODY then return true end
    local its = rare_of(known)
    return not its or its.request ~= rare.request
  end

  local function existing(known, item, terms)
    if known.corrupt and not has(known.flags or 0, UNREADABLE) then return {BROKEN, 0, 0, 0, known.id} end
    local same = task_of(known) == sub(terms[item[6]], TERM_SIZE + 1) and payload_of(known) == item[11]
    return {EXISTING, known.generation, known.state, same and 1 or 0, known.id ~= item[1] and known.id}
  end

  local function standing_for(id) -- the job that it was merged into, if it was; and its own
    local own = read_whole(id)
    local merged = booked('aliases') > 0 and call('HGET', P .. 'aliases', id)
    if not merged then return own, own end
    return read_whole(merged), own
  end

  local function live_holder(key) -- WRITES: a holder past its ttl would never start, so it expires
    local hold = holder(key)
    if not hold then return nil end
    local job = read(hold.id)
    if not job or job.generation ~= hold.generation then return hold end
    if job.corrupt and has(job.flags or 0, UNREADABLE) and hold.mode ~= THROTTLE then return nil end
    if job.corrupt or not is_overdue(job) then return hold end
    expire(job)
    return holder(key)
  end

  local function renamed_terms(job, task) -- WRITES: the terms of a job under another task; 0 and they: inline
    local blob = sub(terms_blob(job) or '', 1, TERM_SIZE) .. task
    return number_terms(blob), blob
  end

  local function put_off(job, window_ms, at_most_ms) -- when a debounced job is due
    local quiet = NOW + window_ms
    return at_most_ms < 0 and quiet or math.max(NOW, math.min(quiet, job.created + at_most_ms))
  end

  local function merge(item, rare, hold, terms) -- WRITES
    local skipped = {SKIPPED, hold.generation, 0, 1, hold.id}
    local job = read_whole(hold.id)
    if not job or job.generation ~= hold.generation then return skipped end
    if job.corrupt then
      if not has(job.flags or 0, UNREADABLE) then return {BROKEN, 0, 0, 0, hold.id} end
      skipped[3] = job.state
      return skipped
    end
    skipped[3] = job.state
    -- A throttled key may outlive its holder, whose id is then another job's, which never had the key.
    local its = rare_of(job)
    local is_its_own = its and has(job.marks, UNIQUE) and its.key == rare.key
    local is_mode = rare.mode == REPLACE or rare.mode == DEBOUNCE
    local is_early = job.state < ACTIVE or job.state == BLOCKED
    if not (is_its_own and is_mode and is_early) or attempts_of(job) > 0 then return skipped end
    local number, blob = renamed_terms(job, sub(terms[item[6]], TERM_SIZE + 1))
    its.overrides, its.headers = rare.overrides, rare.headers
    its.terms = number == 0 and blob or ''
    job.terms = number
    count('aliases', call('HSET', P .. 'aliases', item[1], job.id))
    beside('SADD', P .. 'm:' .. job.id, item[1])
    job.flags = with(job.flags, EXTRA)
    local acceptance = REPLACED
    if rare.mode == DEBOUNCE then
      acceptance = DEBOUNCED
      local due = put_off(job, rare.window - 1, item[9])
      if job.state == BLOCKED then
        job.due = due
        tell(job, TOLD.replaced)
      else
        leave(job)
        job.due = due
        place(job, first_state(job), TOLD.replaced)
      end
    else
      tell(job, TOLD.replaced)
    end
    store(job, item[11], packed_rare(its))
    return {acceptance, job.generation, job.state, 1, job.id}
  end

  local function new_rare(item, rare, number, blob) -- the rare block of a new job, with its terms if they must
    if number > 0 then return item[10] end
    rare = rare or {
      request = NOBODY, ttl = 0, trail = 0, window = 0, mode = 0, ends = 0, creator_generation = 0, key = '',
      creator_queue = '', creator_id = '', overrides = '', headers = '',
    }
    rare.terms = blob
    return packed_rare(rare), rare
  end

  local function open_parents(job, parents) -- WRITES
    local flat, policies, order = {}, {}, {}
    for _, parent in ipairs(parents) do
      local name = pack('>I2', #parent[1]) .. parent[1] .. parent[2]
      if not policies[name] then order[#order + 1] = name end
      policies[name] = parent[3]
    end
    for at, name in ipairs(order) do
      flat[#flat + 1] = name
      flat[#flat + 1] = pack('>I4B', at, policies[name])
    end
    spread('HSET', P .. 'p:' .. job.id, flat)
    attach_to_parents(job, parents)
  end

  local function create(item, rare, generation, last_fence, terms) -- WRITES
    local blob = terms[item[6]]
    local terms_number = number_terms(blob)
    local block
    block, rare = new_rare(item, rare, terms_number, blob), rare
    local due = item[4] >= 0 and item[4] or NOW + item[3]
    local job = {
      id = item[1], flags = 0, marks = item[7], priority = item[2], number = count('numbers', 1), created = NOW,
      due = math.max(due, NOW), expires = item[5] >= 0 and NOW + item[5] or 0, generation = generation,
      terms = terms_number, rare = rare or false,
    }
    if terms_number == 0 then job.marks = with(job.marks, RARE) end
    if last_fence > 0 then -- the fence grows through every life of an id
      job.run = new_run(last_fence)
      save_run(job)
    end
    number_id(job.number, job.id)
    if has(job.marks, UNIQUE) then take_key(job, rare) end
    if item[12] then
      job.flags = with(job.flags, PARENTS)
      open_parents(job, item[12])
    end
    place(job, first_state(job), TOLD.enqueued, true)
    store(job, item[11], block)
    return {CREATED, generation, job.state, 1, false}
  end

  local PLAINLY = {{CREATED, 1, SCHEDULED, 1, false}, {CREATED, 1, WAITING, 1, false}}

  -- WRITES: stores a new job that has nothing rare, as most have, without the tables that the others need; false:
  -- its id is known, or it is another, and nothing was done. What it writes is as in `create`.
  local function create_plainly(item, terms)
    local id, payload = item[1], item[11]
    if item[7] ~= 0 or item[12] or booked('aliases') > 0 or newest_slip(id) > 0 then return false end
    local key, terms_number = P .. 'j:' .. id, number_terms(terms[item[6]])
    if terms_number == 0 then return false end
    local number, place_after = booked('numbers') + 1, places + 1
    local due = math.max(item[4] >= 0 and item[4] or NOW + item[3], NOW)
    local state = due > NOW and SCHEDULED or WAITING
    if not call('SET', key, pack(
      HEAD, 1, state, 0, 0, item[2], place_after, NOW, due, 0, number, NOW, booked('events') + #events, 1,
      terms_number, #payload
    ) .. payload, 'NX') then return false end
    amend('numbers', number)
    count('accepted', 1)
    places = place_after
    number_id(number, id)
    moved[state] = moved[state] + 1
    if state == WAITING then
      noted(lanes, bucket_at('ready', item[2], place_after), number, place_after % 64)
    else
      enter('due', pack('>I6I6', place_after, number), due)
    end
    wake()
    record_event(TOLD.enqueued, state, 0, 1, id)
    return PLAINLY[state]
  end

  function accept(item, terms) -- WRITES
    local plainly = create_plainly(item, terms)
    if plainly then return plainly end
    local known, own = standing_for(item[1])
    local rare = has(item[7], RARE) and parsed_rare(item[10]) or nil
    for _, found in ipairs({known or own, own}) do
      if found.corrupt and not has(found.flags or 0, UNREADABLE) then return {BROKEN, 0, 0, 0, found.id} end
      if not gives_way(found, item, rare) then return existing(found, item, terms) end
    end
    if has(item[7], UNIQUE) then
      local hold = live_holder(rare.key)
      if hold then return merge(item, rare, hold, terms) end
      own = own and read_whole(item[1]) -- it may have been the holder that expired
    end
    local generation, last_fence = newest_slip(item[1]) + 1, 0
    if own then
      generation, last_fence = own.generation + 1, run_of(own).fence
      retire(own)
    end
    if booked('aliases') > 0 then count('aliases', -call('HDEL', P .. 'aliases', item[1])) end
    return create(item, rare, generation, last_fence, terms)
  end

  function accept_group(group, terms) -- WRITES; see storing
    if not group.stored then
      group.stored = store_groups({group})[1] and #group.ids or group.stored
      if group.stored == #group.ids then return WAITING end
    end
    local answers = {}
    for at, id in ipairs(group.ids) do
      answers[at] = at <= group.stored and PLAINLY[WAITING] or accept({
        id, group.priority, 0, -1, -1, group.place, 0, group.reuse, -1, '', group.payloads[at], false,
      }, terms)
    end
    return answers
  end

  function mixed(at, terms) -- rows of which some are groups
    local is_good = is_item(terms)
    local rows_in = each(at, function(row)
      return type(row) == 'table' and (#row == 4 or (is_row(row, ITEM) and is_good(row)))
    end)
    for place_in, row in ipairs(rows_in) do
      if #row == 4 then rows_in[place_in] = parsed_group(row, terms) or error('a group is something else') end
    end
    return rows_in
  end
end
