-- Deletes jobs and all that is stored under their ids.
-- Uses: prelude asked terms plain; records moves operating dropping
-- Flags: allow-oom
-- In: force (0, 1), states (2 ^ (state - 1) for each), ids
-- Out: an answer per id (see operating); of a record that cannot be read the state may be 0
local force, states, asked = whole(3, 0, 1), whole(4, 0, 255), texts(5)
local answers = {}

local function remove(id)
  local job = read(id)
  if not job then
    local is_done = has(states, 2 ^ (COMPLETED - 1)) and forget_slips(id)
    return is_done and {DONE, COMPLETED} or {NOT_FOUND, 0}
  end
  local found = (not job.corrupt or is_in_place(job)) and job.state or 0
  if found > 0 and (not has(states, 2 ^ (found - 1)) or (found == ACTIVE and force == 0)) then
    return {ILLEGAL, found}
  end
  drop_all(job)
  return {DONE, found}
end

for at, id in ipairs(asked) do
  answers[at] = remove(id)
end
finish()
return answers
