-- Part of an acquire script that is about to take the lock: sets `number` and `text`, the number of the grant. It ends the
-- call if there is none, or if a permission is missing.
--
-- Needs FENCE, which is nil without fencing, and PROPOSAL, which counts only with a fence; `known`, the value that read.lua
-- has found under the fence's key (if it is false or nil, this part reads and sets it); `ours`, true if the owner already
-- has the lock; and LARGEST.

local number, text = 0, PROPOSAL
if FENCE then
  if not known then
    -- pcall: something else under the fence's key is no fault of the node.
    known = redis.pcall('GET', FENCE)
  end
  local last
  if type(known) == 'table' then
    if not string.find(known.err, 'WRONGTYPE', 1, true) then
      return known -- a permission is missing
    end
  else
    last = tonumber(known or 0)
  end
  -- After an earlier grant, the fence may be this owner's own number.
  local step = ours and 0 or 1
  number = tonumber(PROPOSAL)
  if last and not (last + step <= number) then
    number = last + step
    text = number
  end
  if not (last and number <= LARGEST) then
    return {-3, last and last < math.huge and number > LARGEST and 0 or 1}
  end
end
