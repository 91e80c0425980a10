-- Refuses arguments of a wrong shape before anything is read or written: what fails later fails half-way.
local function whole(at, least, most) -- a whole number
  local value = ARGS[at]
  local is_number = type(value) == 'number' and value == floor(value)
  if not is_number or value < (least or 0) or value > (most or 2 ^ 53) then
    error('argument ' .. at .. ' is not a whole number from ' .. (least or 0))
  end
  return value
end

local function is_text(value, most)
  return type(value) == 'string' and #value <= most
end

local function text(at, most)
  if not is_text(ARGS[at], most or 1024) then error('argument ' .. at .. ' is not a short text') end
  return ARGS[at]
end

local function texts(at, most) -- a list of texts
  local list = ARGS[at]
  if type(list) ~= 'table' then error('argument ' .. at .. ' is not a list') end
  local size = 0
  for _ in pairs(list) do
    size = size + 1
  end
  for place_in = 1, size do
    if not is_text(list[place_in], most or 1024) then error('argument ' .. at .. ' is not a list of short texts') end
  end
  return list
end

local function wholes(at) -- a list of whole numbers
  local list = ARGS[at]
  if type(list) ~= 'table' then error('argument ' .. at .. ' is not a list') end
  local size = 0
  for _ in pairs(list) do
    size = size + 1
  end
  for place_in = 1, size do
    local value = list[place_in]
    if type(value) ~= 'number' or value ~= floor(value) or value < 0 or value > 2 ^ 53 then
      error('argument ' .. at .. ' is not a list of whole numbers')
    end
  end
  return list
end

whole(1, 0, 2 ^ 48 - 1)
whole(2)
