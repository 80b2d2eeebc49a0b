-- Part of an acquire script that has taken the lock: gives the grant a number. It ends the call if there is a number, or if
-- a permission is missing.
--
-- A grant of the proposal is answered with the proposal alone, since a list costs a server more than a command.
--
-- Needs FENCE, which is there, and PROPOSAL; `known`, the value under the fence's key (false: no string; nil: not known
-- yet); `step`, the least difference to the number of an earlier grant; `fence_ttl`; and LARGEST. Sets `last` and `number`,
-- which show why there is no number.

if known == nil then
  -- pcall: something else under the fence's key is no fault of the node.
  known = redis.pcall('GET', FENCE)
  if type(known) == 'table' then
    if not string.find(known.err, 'WRONGTYPE', 1, true) then
      return known -- a permission is missing
    end
    known = false
  end
end
-- Arithmetic reads a number faster than `tonumber` does.
local last, number, text = 0, PROPOSAL + 0, PROPOSAL
if known then
  last = tonumber(known)
end
if last and not (last + step <= number) then
  number = last + step
  text = number
end
if last and number <= LARGEST then
  if not known then
    if redis.call('SET', FENCE, text, 'NX', 'PX', fence_ttl) then
      return text ~= number and text or {1, number}
    end
    -- Another type of value is under the fence's key, and is not overwritten.
  else
    -- Its end is never brought forward: the number may be ahead of the time. An end that is less than a second too early stays:
    -- setting one costs a server as much as two commands, and fences outlive their locks by a second more than they have to.
    local left = redis.call('PTTL', FENCE)
    if left == -1 or left + 1000 - fence_ttl >= 0 then
      redis.call('SET', FENCE, text, 'KEEPTTL')
    else
      redis.call('SET', FENCE, text, 'PX', fence_ttl)
    end
    return text ~= number and text or {1, number}
  end
end
