-- Tells a parent of a dependant; its end will then make a follow-up.
-- Uses: prelude asked terms plain; records moves operating
-- Flags: allow-oom
-- In: parent's id, child (ref_name), policy
-- Out: 0: there is no such parent, 1: it has not ended, else its state; -1: it cannot be read
local parent_id, child, policy = text(3), text(4), whole(5, 1, 3)
local job = read(parent_id)
if not job then return 0 end
if is_broken(job) then return -1 end
local key = P .. 'd:' .. job.id
if beside('HEXISTS', key, child) == 0 then
  call('HSET', key, child, pack('>I4B', call('HLEN', key) + 1, policy))
  if not has(job.flags, DEPENDANTS) then
    job.flags = with(job.flags, DEPENDANTS)
    save(job)
  end
end
return job.state >= COMPLETED and job.state or 1
