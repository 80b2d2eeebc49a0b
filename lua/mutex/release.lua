-- Gives an exclusive lock back on one node, if it is still ours there, and tells those who wait for it. It is free then,
-- or the node keeps it for a while, although nobody holds it.
--
-- KEYS[1]  the lock
-- KEYS[2]  the owner's tombstone, which is there if the lock was taken from it by force (given only to keep or raise)
-- KEYS[3]  the lock's fence, which keeps the largest number of a grant (given only to raise it)
-- ARGV[1]  the owner id that took it
-- ARGV[2]  the channel on which its releases are told
-- ARGV[3]  until when, in milliseconds of this node's clock, it is kept; 0: it is not (given only to keep or raise)
-- ARGV[4]  by when, in milliseconds of this node's clock, it has to begin to keep it (given only to keep or raise)
-- ARGV[5]  what is under the key while it is kept (given only to keep or raise)
-- ARGV[6]  the number that the fence has at least from now on (given only to raise it)
-- ARGV[7]  the fence's TTL in milliseconds, if it is raised (given only to raise it)
--
-- Replies:
--   1        our key was there, and is deleted, or somebody else's for as long as it is kept
--   {1, n}   the same, and so many connections were told of it
--   0        our key was not there

local TOMBSTONE, FENCE = KEYS[2], KEYS[3]
local KEEP_UNTIL, KEEP_BY, RAISE_TO, FENCE_TTL = ARGV[3], ARGV[4], ARGV[6], ARGV[7]

-- include keeps.lua

-- pcall: another kind's key under that name is not ours either, and no fault of the node.
local owner = redis.pcall('GET', KEYS[1])
local reply = 0
if owner == ARGV[1] then
  -- Before the node is asked to keep it: a server that is out of memory refuses what a script sets first.
  redis.call('DEL', KEYS[1])
  reply = 1
  -- pcall: the lock is given back, whether or not we may say so. Who waits looks now and then.
  local told = redis.pcall('PUBLISH', ARGV[2], ARGV[1])
  if type(told) == 'number' and told > 0 then
    reply = {1, told}
  end
elseif type(owner) == 'table' and not string.find(owner.err, 'WRONGTYPE', 1, true) then
  return owner -- a permission is missing
end
if keeps_for > 0 and (reply ~= 0 or not owner) then
  redis.call('SET', KEYS[1], ARGV[5], 'PX', keeps_for)
end
-- include raise.lua
return reply
