-- Answers how a job stands in its queue, all of one moment.
-- Uses: prelude asked terms plain; records moves telling
-- Flags: no-writes
-- In: id
-- Out: nil: there is no record; else parts (see telling), terms, now, the job that it was merged into or nil
--   (as {id, generation}), paused (0, 1), ahead, whether a suspect waits (0, 1), whom one is reserved for, until,
--   who runs one, who holds its key or nil (as {id, generation})
local AHEAD_LIMIT, ALONE_LIMIT = 1000, 1000

local function is_fresh(number) -- whether a waiting job is not past its ttl
  local expires = call('ZSCORE', P .. 'ttl', pack('>I6', number))
  return not expires or tonumber(expires) > NOW
end

local function fresh_among(key, last) -- how many of a bucket's first ones are
  local fresh = 0
  for _, number in ipairs(last >= 0 and call('ZRANGE', key, 0, last) or {}) do
    if is_fresh(tonumber(number)) then fresh = fresh + 1 end
  end
  return fresh
end

local function ahead_of(job)
  local is_suspect = has(job.flags, SUSPECT)
  local lane, prefix = is_suspect and 'suspects' or 'ready', is_suspect and 's:' or 'w:'
  local own, ahead, from = bucket_of(job), 0, 0
  local has_overdue = call('ZCOUNT', P .. 'ttl', '-inf', NOW) > 0
  while ahead < AHEAD_LIMIT do
    local ranks = call('ZRANGE', P .. lane, from, from + 31)
    for _, rank_of in ipairs(ranks) do
      local key = P .. prefix .. rank_of
      local in_front = key == own and call('ZRANK', key, job.number) or call('ZCARD', key)
      ahead = ahead + (has_overdue and fresh_among(key, in_front - 1) or in_front)
      if key == own or ahead >= AHEAD_LIMIT then return math.min(ahead, AHEAD_LIMIT) end
    end
    if #ranks < 32 then break end
    from = from + 32
  end
  return math.min(ahead, AHEAD_LIMIT)
end

local function has_fresh_suspect()
  for _, rank_of in ipairs(call('ZRANGE', P .. 'suspects', 0, -1)) do
    if fresh_among(P .. 's:' .. rank_of, 63) > 0 then return true end
  end
  return false
end

local function runs_alone() -- the lives of workers that run a suspect
  local numbers, names = call('ZRANGE', P .. 'alone', 0, ALONE_LIMIT - 1), {}
  for at, number in ipairs(numbers) do
    numbers[at] = tonumber(number)
  end
  for at, id in ipairs(ids_of(numbers)) do
    local job = id and read(id)
    if job and not job.corrupt and job.number == numbers[at] then names[#names + 1] = run_of(job).incarnation end
  end
  return names
end

local function key_holder(job)
  local rare = has(job.marks, UNIQUE) and rare_of(job)
  local hold = rare and holder(rare.key)
  return hold and {hold.id, hold.generation} or false
end

local id = text(3)
local own = read(id)
local into = booked('aliases') > 0 and call('HGET', P .. 'aliases', id)
local merged = into and read(into) or nil
local job = own or merged
if not job then return false end
local is_readable = not job.corrupt
return {
  parts_of(job), terms_told(), NOW,
  merged and merged.generation and {merged.id, merged.generation} or false,
  booked('paused'),
  is_readable and job.state == WAITING and ahead_of(job) or 0,
  has_fresh_suspect() and 1 or 0,
  book.suspect_for or '', digits(booked('suspect_until')),
  runs_alone(),
  is_readable and key_holder(job) or false,
}
