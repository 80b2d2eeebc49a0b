-- Part of an acquire script that has taken the lock: notes the number of the grant.
--
-- Needs FENCE, TTL and FENCE_TTL; `known` and `text`, as next_number.lua has set them; and `remaining`, how long the lock's key was
-- to live before. Sets `left`, how long the fence was to live (-2: there was none), and `fence_ttl`, how long it lives at least.

local fence_ttl = FENCE_TTL
if remaining > tonumber(TTL) then
  fence_ttl = fence_ttl + remaining - TTL
end
-- Its end is never brought forward: the number may be ahead of the time.
local left = known and redis.call('PTTL', FENCE) or -2
if left == -1 or left >= tonumber(fence_ttl) then
  redis.call('SET', FENCE, text, 'KEEPTTL')
else
  redis.call('SET', FENCE, text, 'PX', fence_ttl)
end
