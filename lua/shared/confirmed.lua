-- Part of a confirm script whose key, LOCK, is ours: raises the fence, FENCE, to the lock's number, NUMBER. The fence lives
-- for OUTLIVES ms longer than the lock. Sets `known`, its number before (0: none), and `number`, its number now; `left`, its
-- lifetime before, and `ttl`, the lifetime that it needs.

local known = tonumber(redis.call('GET', FENCE) or 0) or 0
local number = math.max(tonumber(NUMBER), known)
-- Its end is never brought forward.
local ttl, left = OUTLIVES + redis.call('PTTL', LOCK), redis.call('PTTL', FENCE)
if left == -1 or left >= ttl then
  redis.call('SET', FENCE, number, 'KEEPTTL')
else
  redis.call('SET', FENCE, number, 'PX', ttl)
end
