-- Stores plain jobs that nobody knows, many with one command.
--
-- A group is {place in the list of terms, priority + 100, reuse, jobs}: what a run of jobs has in common, and of
-- each the sizes of its id (1 byte) and payload (2), id and payload, one behind the other. Its answer is WAITING
-- if all of them were stored, else a list of what `accept` answers.
local parsed_group, groups_at, store_groups
do
  local AT_ONCE = 500

  function parsed_group(row, terms) -- nil: it is no group
    if type(row) ~= 'table' or #row ~= 4 or not is_row(row, {'n', 'n', 'n', 't'}) then return nil end
    local group = {terms = terms[row[1]], place = row[1], priority = row[2], reuse = row[3], ids = {}, payloads = {}}
    if not group.terms or group.priority > 200 then return nil end
    local jobs, at, ids, payloads, seen = row[4], 1, group.ids, group.payloads, {}
    while at <= #jobs do
      local id_size, payload_size, id_at = unpacked('>BI2', jobs, at)
      local payload_at = id_at + id_size
      at = payload_at + payload_size
      if at > #jobs + 1 or payload_size > PLAIN_PAYLOAD then error('a job is cut') end
      local id = sub(jobs, id_at, payload_at - 1)
      if seen[id] then group.has_twins = true end
      seen[id] = true
      ids[#ids + 1], payloads[#payloads + 1] = id, sub(jobs, payload_at, at - 1)
    end
    return group
  end

  function groups_at(at, terms) -- nil: some row is no group
    local groups = {}
    if type(ARGS[at]) ~= 'table' then return nil end
    for place, row in ipairs(ARGS[at]) do
      groups[place] = parsed_group(row, terms)
      if not groups[place] then return nil end
    end
    return groups
  end

  local function line_up_all(group, first, number, last) -- WRITES: those from `first` on wait, in their order
    local at = first
    while at <= last do
      local place = places + at - first + 1
      local start = place % 64
      local size, members = math.min(last - at + 1, 64 - start), {}
      for each = 0, size - 1 do
        members[each * 2 + 1] = small_digits(start + each)
        members[each * 2 + 2] = digits(number + at - first + 1 + each)
      end
      local rank = digits(rank_at(group.priority, place))
      call('ZADD', P .. 'w:' .. rank, unpack(members))
      call('ZADD', P .. 'ready', rank, rank)
      at = at + size
    end
  end

  local function number_all(ids, first, number, last) -- WRITES the ids under their numbers
    local at = first
    while at <= last do
      local its = number + at - first + 1
      local start = its % 64
      local size, fields = math.min(last - at + 1, 64 - start), {}
      for each = 0, size - 1 do
        fields[each * 2 + 1] = small_digits(start + each)
        fields[each * 2 + 2] = ids[at + each]
      end
      local bucket = digits(floor(its / 64))
      call('HSET', P .. 'n:' .. bucket, unpack(fields))
      call('ZADD', P .. 'numbers', bucket, bucket)
      at = at + size
    end
  end

  local function store_some(group, first, last) -- WRITES; false: one of them is known, and nothing was done
    local number, born, ids, payloads = booked('numbers'), booked('events') + #events, group.ids, group.payloads
    local front, flat, backs = pack('>BBB', 2, WAITING, group.priority), {}, {}
    for at = first, last do
      local step, payload = at - first + 1, payloads[at]
      local back = backs[#payload]
      if not back then
        back = pack('>I2I3', group.number, #payload)
        backs[#payload] = back
      end
      flat[step * 2 - 1] = P .. 'j:' .. ids[at]
      flat[step * 2] = pack(
        '>c3I6c6I5c6I6c5', front, places + step, NOW_PACKED, number + step, NOW_PACKED, born + step - 1, back
      ) .. payload
    end
    if call('MSETNX', unpack(flat)) == 0 then return false end
    line_up_all(group, first, number, last)
    number_all(ids, first, number, last)
    local size, told = last - first + 1, pack('>BBI4I4', TOLD.enqueued, WAITING, 0, 1)
    for at = first, last do
      events[#events + 1] = told .. size_of(ids[at]) .. ids[at]
    end
    places, moved[WAITING] = places + size, moved[WAITING] + size
    amend('numbers', number + size)
    count('accepted', size)
    wake()
    return true
  end

  local function store_group(group) -- WRITES; how many from the first on were stored
    local size = #group.ids
    if group.has_twins or booked('aliases') > 0 or booked('slips') > 0 then return 0 end
    group.number = number_terms(group.terms)
    if group.number == 0 then return 0 end
    for first = 1, size, AT_ONCE do
      if not store_some(group, first, math.min(first + AT_ONCE - 1, size)) then return first - 1 end
    end
    return size
  end

  function store_groups(groups) -- WRITES; answers, up to the first of them of which some is known or not plain
    local answers = {}
    for at, group in ipairs(groups) do
      group.stored = store_group(group)
      if group.stored < #group.ids then break end
      answers[at] = WAITING
    end
    return answers
  end
end
