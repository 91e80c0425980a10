-- Stores the jobs of a schedule's ticks and moves its cursor, in one step.
-- Uses: prelude asked terms plain; records moves accepting
-- Flags:
-- In: name, cursor seen, new cursor (as text), is registered (0, 1), terms, items (see accepting)
-- Out: an answer per item; 0: it is paused, gone, on its way, or its cursor is another; 1: register first
local key, seen, cursor = P .. 'schedule:' .. text(3), text(4), text(5)
local registered, terms = whole(6, 0, 1), texts(7)
local items = rows(8, ITEM, is_item(terms))
local found = call('HMGET', key, 'cursor', 'paused', 'to')
if found[1] ~= seen or found[2] ~= '0' or found[3] then return 0 end
if #items > 0 and not book.known then
  if registered == 0 then return 1 end
  amend('known', 1)
end
local answers = {}
for at, item in ipairs(items) do
  answers[at] = accept(item, terms)
end
call('HSET', key, 'cursor', cursor)
finish()
return answers
