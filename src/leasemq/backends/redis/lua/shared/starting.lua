-- Hands out plain jobs, many with one command; what else waits is left to taking.
local claimant_at, claim_plainly, is_special, EMPTY, PAUSED = nil, nil, nil, 1, 2
do
  local AT_ONCE = 64 -- entries of one bucket

  function claimant_at(at) -- who claims, of four arguments from there on
    return {
      nonce = text(at, 255), incarnation = text(at + 1, 65535), worker = text(at + 2, 65535),
      takes_suspect = whole(at + 3, 0, 1) == 1,
    }
  end

  function is_special(claimant) -- whether this claim was made before, nothing is handed out, or not in the plain order
    if book.paused == '1' or call('EXISTS', P .. 'c:' .. claimant.nonce) == 1 then return true end
    return call('EXISTS', P .. 'suspects') == 1 or call('ZCOUNT', P .. 'ttl', '-inf', NOW) > 0
  end

  local function plain_run(lease_ms, claimant) -- the run of every plain job of one claim: the same for all of them
    return pack(
      RUN, 1, NOW * 1000, 1, 0, 0, 0, NOW + lease_ms, NOW, 0, NOW, 0, 0, 0, NOBODY, 0, 0, 0, 0,
      #claimant.nonce, #claimant.incarnation, #claimant.worker, 0
    ) .. claimant.nonce .. claimant.incarnation .. claimant.worker
  end

  local function waits_plainly(raw, number) -- whether a record is the plain one of this number, and whole
    if not raw or #raw < PLAIN_SIZE then return false end
    local version, state, _, _, _, its, _, _, terms, size = unpacked(PLAIN, raw)
    return version == 2 and state == WAITING and its == number and #raw == PLAIN_SIZE + size
      and numbered_terms(terms)
  end

  -- WRITES: starts those of a bucket that are plain, up to the first that is not; how many.
  local function take(begun, claimant, key, entries)
    local numbers, keys = {}, {}
    for at, entry in ipairs(entries) do
      numbers[at] = tonumber(entry)
    end
    local found = ids_of(numbers)
    for at = 1, #found do
      keys[at] = P .. 'j:' .. (found[at] or '')
    end
    local raws, flat, into, leases, told = call('MGET', unpack(keys)), {}, {}, begun.leases, begun.told
    local rest = sub(begun.run, 2)
    local size = 0
    for at = 1, #found do
      local raw, id = raws[at], found[at]
      if not id or not waits_plainly(raw, numbers[at]) then break end
      local entry = pack('>I6I6', next_place(), numbers[at])
      flat[at * 2 - 1], flat[at * 2] = P .. 'r:' .. id, '\2\3' .. entry .. NOW_PACKED .. rest
      into[at * 2 - 1], into[at * 2] = begun.lease, entry
      leases[#leases + 1] = id
      leases[#leases + 1] = raw
      events[#events + 1] = told .. size_of(id) .. id
      hold(claimant.incarnation, claimant.nonce, entry)
      size = at
    end
    if size > 0 then
      call('MSET', unpack(flat))
      call('ZADD', P .. 'leases', unpack(into))
      call('ZREMRANGEBYRANK', key, 0, size - 1)
      moved[WAITING], moved[ACTIVE] = moved[WAITING] - size, moved[ACTIVE] + size
    end
    return size
  end

  -- WRITES: what was begun of a claim, as {leases flat, run of all of them, how many, is_over}; not over: the next
  -- job, if any, is not plain.
  local function begin(limit, lease_ms, claimant)
    local begun = {
      leases = {}, count = 0, is_over = true, run = plain_run(lease_ms, claimant), lease = digits(NOW + lease_ms),
      told = pack('>BBI4I4', TOLD.claimed, ACTIVE, 1, 1),
    }
    while begun.count < limit do
      local bucket = call('ZRANGE', P .. 'ready', 0, 0)[1]
      if not bucket then break end
      local key, most = P .. 'w:' .. bucket, math.min(AT_ONCE, limit - begun.count)
      local entries = call('ZRANGE', key, 0, most - 1)
      local size = #entries > 0 and take(begun, claimant, key, entries) or 0
      begun.count = begun.count + size
      if size == #entries and call('EXISTS', key) == 0 then call('ZREM', P .. 'ready', bucket) end
      if size < #entries then
        begun.is_over = false
        break
      end
    end
    flush()
    return begun
  end

  -- WRITES, all but `finish`: as `claim` of taking, and what was begun, if that is to go on there.
  function claim_plainly(limit, lease_ms, claimant)
    if is_idle() then
      local reason = book.paused == '1' and PAUSED or limit > 0 and EMPTY or 0
      return {{}, {}, -1, -1, reason, 0, ''}, nil
    end
    if is_special(claimant) then return nil, nil end
    local begun = begin(limit, lease_ms, claimant)
    if not begun.is_over then return nil, begun end
    local is_short = begun.count < limit
    return {
      begun.leases, terms_told(), next_due(), is_short and next_lapse() or -1, is_short and EMPTY or 0, 0, begun.run,
    }, nil
  end
end
