-- Tells a node the number of a read-write lock that was won to write, if the lock is still ours there.
--
-- KEYS[1]  the lock: a hash with the field 'mode', which is 'read' or 'write', and a field for each hold
-- KEYS[2]  its fence, which keeps the largest number of a grant
-- ARGV[1]  the owner id that took it
-- ARGV[2]  the lock's number
-- ARGV[3]  how much longer than the lock the fence lives, in milliseconds
--
-- Replies:
--   1   our key is there, and the fence is that number or a larger one
--   0   our key is not there, and the fence is what it was
--
-- A node that is not ours must not say 1: it may have given a smaller number to its owner before.

-- pcall: another kind's key under that name is not ours either, and no fault of the node.
local ours = redis.pcall('HEXISTS', KEYS[1], ARGV[1])
if type(ours) == 'table' and not string.find(ours.err, 'WRONGTYPE', 1, true) then
  return ours -- a permission is missing
elseif ours ~= 1 then
  return 0
end
local known = tonumber(redis.call('GET', KEYS[2]) or 0) or 0
local number = math.max(tonumber(ARGV[2]), known)
-- Its end is never brought forward.
local ttl, left = ARGV[3] + redis.call('PTTL', KEYS[1]), redis.call('PTTL', KEYS[2])
if left == -1 or left >= ttl then
  redis.call('SET', KEYS[2], number, 'KEEPTTL')
else
  redis.call('SET', KEYS[2], number, 'PX', ttl)
end
return 1
