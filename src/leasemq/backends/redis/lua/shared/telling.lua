-- Answers all that is stored about jobs, as it is stored; records.py makes records of it.
--
-- The parts of a job are {id, record, run or '', rare values flat, attempts, refused, log, open parents}.
local NONE = {}

local function parts_of(job) -- READS, of a job that was read
  local id, raw = job.id, load(job)
  local flags = job.flags or 0
  local run = has(flags, RUNS) and try('GET', P .. 'r:' .. id) or ''
  local parts = {id, raw, type(run) == 'string' and run or '', NONE, NONE, NONE, NONE, NONE}
  if has(flags, EXTRA) then
    local found = {
      try('HGETALL', P .. 'x:' .. id), try('LRANGE', P .. 'h:' .. id, 0, -1),
      try('LRANGE', P .. 'f:' .. id, 0, -1), try('LRANGE', P .. 'g:' .. id, 0, -1),
    }
    for at, list in ipairs(found) do
      if list.err then
        parts[2] = ''
      else
        parts[3 + at] = list
      end
    end
  end
  if has(flags, PARENTS) then
    local list = {}
    for at, parent in ipairs(in_order(P .. 'p:' .. id)) do
      list[at] = string.char(parent[2]) .. parent[1]
    end
    parts[8] = list
    if try('HLEN', P .. 'p:' .. id) ~= #list then parts[2] = '' end
  end
  if not job.corrupt then terms_blob(job) end
  return parts
end

