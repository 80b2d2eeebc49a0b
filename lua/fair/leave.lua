-- Takes a caller out of the queue of a fair lock on one node, and tells the next one if it is now first and the lock is
-- free.
--
-- Replies:
--   1   it was in the queue
--   0   it was not

local LOCK, QUEUE, QUEUE_ENDS = KEYS[1], KEYS[2], KEYS[3]
local QUEUED, CHANNEL = ARGV[1], ARGV[2]

-- pcall: something else under that key is not a queue, and no fault of the node.
local first = redis.pcall('ZRANGE', QUEUE, 0, 0)
if first.err then
  if not string.find(first.err, 'WRONGTYPE', 1, true) then
    return first -- a permission is missing
  end
  return 0
end
redis.call('ZREM', QUEUE_ENDS, QUEUED)
if redis.call('ZREM', QUEUE, QUEUED) == 0 then
  return 0
end
if first[1] == QUEUED and redis.call('TYPE', LOCK).ok == 'none' then
  first = redis.call('ZRANGE', QUEUE, 0, 0)
  if first[1] then
    -- pcall: it polls now and then, even if publishing is not permitted.
    redis.pcall('PUBLISH', CHANNEL, first[1])
  end
end
return 1
