-- Records progress, log lines, checkpoints and offered children, while the fence is the newest.
-- Uses: prelude asked terms plain; records moves
-- Flags: allow-oom
-- In: notes: {job id, fence, nonce, kind, value, number, child or false} each; kinds are progress 1, log 2,
--     checkpoint 3, offer 4; a child is {ref_name, packed job}
-- Out: an answer per note: held 1, lost 2; 0: that job cannot be read
local KINDS = {'progress', 'log', 'checkpoint', 'offer'}

local function write(job, note)
  local kind, value = note[4], note[5]
  if kind == 1 then
    put_extra(job, 'progress', value)
    tell(job, TOLD.progress, value)
  elseif kind == 2 then
    beside('RPUSH', P .. 'g:' .. job.id, value)
    call('LTRIM', P .. 'g:' .. job.id, -100, -1)
    job.flags = with(job.flags, EXTRA)
    trace(job, TOLD.log, value)
  elseif kind == 3 then
    put_extra(job, 'checkpoint', value)
  else
    follow_up(OFFER, note[7][1], ref_name('', job.id, job.generation), 0, 0, note[7][2])
  end
end

local function note_one(note)
  local job = read(note[1])
  if not job then return 2 end
  if job.corrupt and not has(job.flags or 0, UNREADABLE) then return 0 end
  local run = job.state == ACTIVE and run_of(job)
  if job.corrupt then return 0 end
  if not run or run.fence ~= note[2] or run.nonce ~= note[3] then
    refuse(job, note[2], KINDS[note[4]])
    return 2
  end
  if note[6] > 0 and note[6] <= run.noted then return 1 end
  local flags = job.flags
  write(job, note)
  if note[6] > run.noted then
    run.noted = note[6]
    call('SETRANGE', P .. 'r:' .. job.id, 36 + more_of(job), pack('>I6', note[6]))
  end
  if job.flags ~= flags then save(job) end
  return 1
end

local function is_note(note)
  return KINDS[note[4]] and (note[4] ~= 4 or is_row(note[7], {'t', 't'}))
end

local answers = {}
for at, note in ipairs(rows(3, {'t', 'n', 't', 'n', 't', 'n'}, is_note)) do
  answers[at] = note_one(note)
end
finish()
return answers
