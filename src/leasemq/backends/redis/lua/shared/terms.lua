-- TERMS: task, stall budget and retention are the same for most jobs, so a record has only their number.
local TERM_LIMIT, TERM_SIZE = 4000, 22
local terms_known, terms_numbered = {}, {}

local function number_terms(blob) -- WRITES new terms; 0: the table is full, they go into the rare block
  local number = terms_numbered[blob]
  if number then return number end
  number = tonumber(call('HGET', P .. 'term_numbers', blob) or 0)
  if number == 0 and booked('terms') < TERM_LIMIT then
    number = count('terms', 1)
    call('HSET', P .. 'term_numbers', blob, number)
    call('HSET', P .. 'terms', number, blob)
  end
  if number > 0 then terms_numbered[blob], terms_known[number] = number, blob end
  return number
end

local function numbered_terms(number) -- false: there are none
  local blob = terms_known[number]
  if blob == nil then
    blob = call('HGET', P .. 'terms', number)
    terms_known[number] = blob
  end
  return blob
end

local function terms_told() -- the terms that were asked for, flat
  local flat = {}
  for number, blob in pairs(terms_known) do
    if blob then
      flat[#flat + 1] = number
      flat[#flat + 1] = blob
    end
  end
  return flat
end
