-- Gives a reentrant lock back on one node, if it is still ours there, and tells those who wait for it. It is free then,
-- or the node keeps it for a while, although nobody holds it.
--
-- KEYS[1]  the lock: a hash whose one field is the owner
-- KEYS[2]  the owner's tombstone, which is there if the lock was taken from it by force (given only to keep or raise)
-- KEYS[3]  the lock's fence, which keeps the largest number of a grant (given only to raise it)
-- ARGV[1]  the owner id that took it
-- ARGV[2]  the channel on which its releases are told to our clients
-- ARGV[3]  the channel on which they are told to Redisson's clients
-- ARGV[4]  until when, in milliseconds of this node's clock, it is kept; 0: it is not (given only to keep or raise)
-- ARGV[5]  by when, in milliseconds of this node's clock, it has to begin to keep it (given only to keep or raise)
-- ARGV[6]  the field in the hash while it is kept (given only to keep or raise)
-- ARGV[7]  the number that the fence has at least from now on (given only to raise it)
-- ARGV[8]  the fence's TTL in milliseconds, if it is raised (given only to raise it)
--
-- Replies:
--   1        our key was there, and is deleted, or somebody else's for as long as it is kept
--   {1, n}   the same, and so many connections were told of it
--   0        our key was not there

local TOMBSTONE, FENCE = KEYS[2], KEYS[3]
local KEEP_UNTIL, KEEP_BY, RAISE_TO, FENCE_TTL = ARGV[4], ARGV[5], ARGV[7], ARGV[8]

-- include keeps.lua

-- The hash ends with its last field. pcall: another kind's key under that name is not ours either, and no fault
-- of the node.
local ours = redis.pcall('HDEL', KEYS[1], ARGV[1])
local reply = 0
if ours == 1 then
  reply = 1
  local CHANNEL, THEIRS, WORD = ARGV[2], ARGV[3], '0'
  -- include tell.lua
elseif type(ours) == 'table' and not string.find(ours.err, 'WRONGTYPE', 1, true) then
  return ours -- a permission is missing
end
if keeps_for > 0 and redis.call('TYPE', KEYS[1]).ok == 'none' then
  redis.call('HSET', KEYS[1], ARGV[6], 1)
  -- pcall: what cannot be given an end is not kept.
  local set = redis.pcall('PEXPIRE', KEYS[1], keeps_for)
  if type(set) == 'table' then
    redis.call('HDEL', KEYS[1], ARGV[6])
    return set -- a permission is missing
  end
end
-- include raise.lua
return reply
