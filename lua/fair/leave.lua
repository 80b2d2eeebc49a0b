-- Takes a caller out of the queue of a fair lock on one node, and tells the one behind it, if that goes next.
--
-- KEYS[1]  the lock
-- KEYS[2]  the queue: those who wait, in the order of their tickets
-- KEYS[3]  until when each of them waits, in milliseconds of this node's clock
-- ARGV[1]  as what the caller stands in the queue
-- ARGV[2]  the channel on which the lock's releases are told
--
-- Replies:
--   1   it was in the queue
--   0   it was not

-- pcall: something else under that key is no queue, and no fault of the node.
local first = redis.pcall('ZRANGE', KEYS[2], 0, 0)
if first.err then
  if not string.find(first.err, 'WRONGTYPE', 1, true) then
    return first -- a permission is missing
  end
  return 0
end
redis.call('ZREM', KEYS[3], ARGV[1])
if redis.call('ZREM', KEYS[2], ARGV[1]) == 0 then
  return 0
end
if first[1] == ARGV[1] and redis.call('TYPE', KEYS[1]).ok == 'none' then
  first = redis.call('ZRANGE', KEYS[2], 0, 0)
  if first[1] then
    -- pcall: it looks now and then, whether or not it may be told.
    redis.pcall('PUBLISH', ARGV[2], first[1])
  end
end
return 1
