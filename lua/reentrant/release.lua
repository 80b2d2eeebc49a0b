-- Gives a reentrant lock back on one node, if it is still ours there, and tells its waiters. The lock is then free, or the
-- node keeps it for a while, although nobody holds it.
--
-- Replies:
--   1        our key was there, and is deleted, or replaced by that of a kept lock
--   {1, n}   the same, and n connections were told about it
--   0        our key was not there

local redis, KEYS, ARGV = redis, KEYS, ARGV -- a local is found faster than a global
local LOCK, TOMBSTONE, FENCE = KEYS[1], KEYS[2], KEYS[3]
local OWNER, CHANNEL, REDISSONS_CHANNEL, KEEP_UNTIL, KEEP_BY, KEPT, RAISE_TO, FENCE_TTL
  = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6], ARGV[7], ARGV[8]

-- include keeps.lua

-- The hash ends with its last field. pcall: another kind's key under that name is not ours either, and no fault
-- of the node.
local ours = redis.pcall('HDEL', LOCK, OWNER)
local reply = 0
if ours == 1 then
  reply = 1
  local WORD = '0'
  -- include tell.lua
elseif type(ours) == 'table' and not string.find(ours.err, 'WRONGTYPE', 1, true) then
  return ours -- a permission is missing
end
if keeps_for > 0 and redis.call('TYPE', LOCK).ok == 'none' then
  redis.call('HSET', LOCK, KEPT, 1)
  -- pcall: a lock without an end is not kept.
  local set = redis.pcall('PEXPIRE', LOCK, keeps_for)
  if type(set) == 'table' then
    redis.call('HDEL', LOCK, KEPT)
    return set -- a permission is missing
  end
end
-- include raise.lua
return reply
