-- Gives an exclusive lock back on one node, if it is still ours there, and tells those who wait for it.
--
-- KEYS[1]  the lock
-- ARGV[1]  the owner id that took it
-- ARGV[2]  the channel on which its releases are told
--
-- Replies:
--   1        our key was there and is deleted
--   {1, n}   the same, and so many connections were told of it
--   0        our key was not there

-- pcall: another kind's key under that name is not ours either, and no fault of the node.
local owner = redis.pcall('GET', KEYS[1])
if owner == ARGV[1] then
  redis.call('DEL', KEYS[1])
  -- pcall: the lock is given back, whether or not we may say so. Who waits looks now and then.
  local told = redis.pcall('PUBLISH', ARGV[2], ARGV[1])
  if type(told) == 'number' and told > 0 then
    return {1, told}
  end
  return 1
elseif type(owner) == 'table' and not string.find(owner.err, 'WRONGTYPE', 1, true) then
  return owner -- a permission is missing
end
return 0
