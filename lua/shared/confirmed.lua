-- Part of a confirm script whose key, LOCK, is ours: raises the fence, FENCE, to the lock's number, NUMBER. It
-- lives for OUTLIVES ms longer than the lock. Sets `known`, what it was (0: no number), and `number`, what it is; `left`, how long
-- it was to live, and `ttl`, how long it is to live at least.

local known = tonumber(redis.call('GET', FENCE) or 0) or 0
local number = math.max(tonumber(NUMBER), known)
-- Its end is never brought forward.
local ttl, left = OUTLIVES + redis.call('PTTL', LOCK), redis.call('PTTL', FENCE)
if left == -1 or left >= ttl then
  redis.call('SET', FENCE, number, 'KEEPTTL')
else
  redis.call('SET', FENCE, number, 'PX', ttl)
end
