-- Answers all that is stored about some jobs.
-- Uses: prelude asked terms plain; records moves telling
-- Flags: no-writes
-- In: ids
-- Out: parts per id, or nil where there is no record (see telling); terms, flat; now
local found = {}
for at, id in ipairs(texts(3)) do
  local job = read(id)
  if not job and call('EXISTS', P .. 'j:' .. id) == 1 then job = parsed(id, '') end
  found[at] = job and parts_of(job) or false
end
return {found, terms_told(), NOW}
