-- Answers the active leases of one life of a worker, oldest first.
-- Uses: prelude asked records moves taking
-- Flags: no-writes
-- In: incarnation
-- Out: leases, terms
local numbers, found = call('SMEMBERS', P .. 'o:' .. ARGS[3]), {}
for at, number in ipairs(numbers) do
  numbers[at] = tonumber(number)
end
for at, id in ipairs(ids_of(numbers)) do
  local job = id and read_whole(id)
  local is_its = job and not job.corrupt and job.number == numbers[at] and job.state == ACTIVE
  if is_its and run_of(job).incarnation == ARGS[3] and not job.corrupt then found[#found + 1] = job end
end
table.sort(found, function(one, other) return one.place < other.place end)
know_terms(found)
return {leases_of(found), terms_told()}
