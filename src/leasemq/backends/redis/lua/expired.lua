-- Answers leases past their deadline, oldest first; those that cannot be read are left to `advance`.
-- Uses: prelude asked terms plain; records moves taking
-- Flags: no-writes
-- In: limit
-- Out: leases, terms
local found = {}
local entries = call('ZRANGEBYSCORE', P .. 'leases', '-inf', NOW, 'LIMIT', 0, math.max(ARGS[3], 0))
local numbers = {}
for at, entry in ipairs(entries) do
  local _, number = unpacked('>I6I6', entry)
  numbers[at] = number
end
for at, id in ipairs(ids_of(numbers)) do
  local job = id and read_whole(id)
  local is_here = job and not job.corrupt and job.number == numbers[at] and job.state == ACTIVE
  if is_here and has(job.flags, RUNS) and run_of(job) and not job.corrupt and terms_blob(job) then
    found[#found + 1] = job
  end
end
return {leases_of(found), terms_told()}
