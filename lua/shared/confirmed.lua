-- Part of a confirm script whose lock is one key, KEYS[1], which is ours: raises the fence, KEYS[2], to the lock's number, ARGV[2]. It
-- lives for ARGV[3] ms longer than the lock. Sets `known`, what it was (0: no number), and `number`, what it is; `left`, how long
-- it was to live, and `ttl`, how long it is to live at least.

local known = tonumber(redis.call('GET', KEYS[2]) or 0) or 0
local number = math.max(tonumber(ARGV[2]), known)
-- Its end is never brought forward.
local ttl, left = ARGV[3] + redis.call('PTTL', KEYS[1]), redis.call('PTTL', KEYS[2])
if left == -1 or left >= ttl then
  redis.call('SET', KEYS[2], number, 'KEEPTTL')
else
  redis.call('SET', KEYS[2], number, 'PX', ttl)
end
