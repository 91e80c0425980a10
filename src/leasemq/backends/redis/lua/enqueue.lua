-- Stores jobs in their order, or answers what stands for them already.
-- Uses: prelude asked terms plain storing; records moves accepting
-- In: is registered (0, 1), terms, rows: each a group (see storing) or an item (see accepting)
-- Out: an answer per row; nil: the queue's name is to be registered first
local registered, terms = whole(3, 0, 1), texts(4)
local groups, answers = groups_at(5, terms), {}
if groups and (book.known or registered == 1) then
  if not book.known then amend('known', 1) end
  answers = store_groups(groups)
  if #answers == #groups then
    finish()
    return answers
  end
end
-- THE REST
groups = groups or mixed(5, terms)
if not book.known then
  if registered == 0 then return false end
  amend('known', 1)
end
for at = #answers + 1, #groups do
  answers[at] = groups[at].ids and accept_group(groups[at], terms) or accept(groups[at], terms)
end
finish()
return answers
