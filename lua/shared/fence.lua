-- Part of an acquire script that has taken the lock: notes the number of the grant.
--
-- Needs FENCE, TTL and FENCE_TTL; `known` and `text`, as next_number.lua has set them; and `remaining`, the earlier lifetime
-- of the lock's key. Sets `left`, the earlier lifetime of the fence (-2: there was none), and `fence_ttl`, the lifetime that it
-- should have now; it may have up to a second less.

local fence_ttl = FENCE_TTL
if remaining > tonumber(TTL) then
  fence_ttl = fence_ttl + remaining - TTL
end
-- Its end is never brought forward: the number may be ahead of the time. Fences get a second more than they need, so a second
-- less is enough, and saves the server the time of two commands.
local left = known and redis.call('PTTL', FENCE) or -2
if left == -1 or left + 1000 - fence_ttl >= 0 then
  redis.call('SET', FENCE, text, 'KEEPTTL')
else
  redis.call('SET', FENCE, text, 'PX', fence_ttl)
end
