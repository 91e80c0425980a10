-- Refuses arguments of a wrong shape before anything is read or written: what fails later fails half-way.
local whole, text, texts, wholes, is_row, rows, each
do
  local LEAST, MOST = {n = 0, i = -1, b = 0}, {n = 2 ^ 53, i = 2 ^ 53, b = 1}

  local function is_whole_number(value, least, most)
    return type(value) == 'number' and value % 1 == 0 and value >= least and value <= most
  end

  local function is_text(value, most)
    return type(value) == 'string' and #value <= most
  end

  function each(at, is_good, ...) -- a list of which each is good
    local list, size = ARGS[at], 0
    if type(list) ~= 'table' then error('argument ' .. at .. ' is not a list') end
    for _ in pairs(list) do
      size = size + 1
    end
    for place_in = 1, size do
      if not is_good(list[place_in], ...) then error('argument ' .. at .. ' is something else at ' .. place_in) end
    end
    return list
  end

  function whole(at, least, most) -- a whole number
    if not is_whole_number(ARGS[at], least or 0, most or 2 ^ 53) then
      error('argument ' .. at .. ' is not a whole number from ' .. (least or 0))
    end
    return ARGS[at]
  end

  function text(at, most)
    if not is_text(ARGS[at], most or 2 ^ 24) then error('argument ' .. at .. ' is not a text') end
    return ARGS[at]
  end

  function texts(at, most) -- a list of texts
    return each(at, is_text, most or 2 ^ 24)
  end

  function wholes(at) -- a list of whole numbers
    return each(at, is_whole_number, 0, 2 ^ 53)
  end

  -- Whether fields are of these kinds: whole numbers (n; i: -1 too; b: 0 or 1), texts (t; o: or false).
  function is_row(row, kinds)
    if type(row) ~= 'table' then return false end
    for place_in = 1, #kinds do
      local kind, value = kinds[place_in], row[place_in]
      local least = LEAST[kind]
      if least then
        if not is_whole_number(value, least, MOST[kind]) then return false end
      elseif type(value) ~= 'string' and (kind == 't' or value ~= false) then
        return false
      end
    end
    return true
  end

  function rows(at, kinds, is_good) -- a list of such lists, each of which is good
    return each(at, function(row)
      return is_row(row, kinds) and (not is_good or is_good(row))
    end)
  end
end

whole(1, 0, 2 ^ 48 - 1)
whole(2)
