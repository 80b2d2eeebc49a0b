-- Gives a fair lock back on one node, if it is still ours there, and tells the first waiter. The lock is then free, or the
-- node keeps it for a while, although nobody holds it.
--
-- Replies:
--   1   our key was there, and is deleted, or replaced by that of a kept lock
--   0   our key was not there

local redis, KEYS, ARGV = redis, KEYS, ARGV -- a local is found faster than a global
local LOCK, QUEUE, TOMBSTONE, FENCE = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local OWNER, CHANNEL, QUEUED, KEEP_UNTIL, KEEP_BY, KEPT, RAISE_TO, FENCE_TTL
  = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6], ARGV[7], ARGV[8]

-- include keeps.lua

-- pcall: another kind's key under that name is not ours either, and no fault of the node.
local owner = redis.pcall('GET', LOCK)
local reply = 0
if owner == OWNER then
  -- Before the node sets the kept key: a server that is out of memory sets nothing, unless the script has deleted something
  -- before.
  redis.call('DEL', LOCK)
  reply = 1
  -- The first in the queue is told, or if there is none, all callers that have no ticket yet. If the caller itself is the
  -- first, it comes again without being told. '#queued' is the name of nobody in the queue. It tells the waiters for the
  -- name as a lock of another kind, which may have been refused because of this key.
  local first = redis.pcall('ZRANGE', QUEUE, 0, 0)[1]
  -- pcall: the lock is given back even if publishing is not permitted. Waiters poll now and then.
  redis.pcall('PUBLISH', CHANNEL, first == QUEUED and '#queued' or first or OWNER)
elseif type(owner) == 'table' and not string.find(owner.err, 'WRONGTYPE', 1, true) then
  return owner -- a permission is missing
end
if keeps_for > 0 and (reply ~= 0 or not owner) then
  redis.call('SET', LOCK, KEPT, 'PX', keeps_for)
end
-- include raise.lua
return reply
