-- Gives an exclusive lock back on one node, if it is still ours there, and tells its waiters. The lock is then free, or the
-- node keeps it for a while, although nobody holds it.
--
-- Replies:
--   1        our key was there, and is deleted, or replaced by that of a kept lock
--   {1, n}   the same, and n connections were told about it
--   0        our key was not there

local redis, KEYS, ARGV = redis, KEYS, ARGV -- a local is found faster than a global
local LOCK, TOMBSTONE, FENCE = KEYS[1], KEYS[2], KEYS[3]
local OWNER, CHANNEL, KEEP_UNTIL, KEEP_BY, KEPT, RAISE_TO, FENCE_TTL
  = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6], ARGV[7]

-- include keeps.lua

-- pcall: another kind's key under that name is not ours either, and no fault of the node.
local owner = redis.pcall('GET', LOCK)
local reply = 0
if owner == OWNER then
  -- Before the node sets the kept key: a server that is out of memory sets nothing, unless the script has deleted something
  -- before.
  redis.call('DEL', LOCK)
  reply = 1
  -- pcall: the lock is given back even if publishing is not permitted. Waiters poll now and then.
  local told = redis.pcall('PUBLISH', CHANNEL, OWNER)
  if type(told) == 'number' and told > 0 then
    reply = {1, told}
  end
elseif type(owner) == 'table' and not string.find(owner.err, 'WRONGTYPE', 1, true) then
  return owner -- a permission is missing
end
if keeps_for > 0 and (reply ~= 0 or not owner) then
  redis.call('SET', LOCK, KEPT, 'PX', keeps_for)
end
-- include raise.lua
return reply
