-- Stores jobs in their order, or answers what stands for them already.
-- Uses: prelude asked records moves accepting
-- In: is registered (0, 1), terms, items (see accepting)
-- Out: an answer per item; nil: the queue's name is to be registered first
local registered, terms = whole(3, 0, 1), texts(4)
local items = rows(5, ITEM, is_item(terms))
if not book.known then
  if registered == 0 then return false end
  amend('known', 1)
end
local answers = {}
for at, item in ipairs(items) do
  answers[at] = accept(item, terms)
end
finish()
return answers
