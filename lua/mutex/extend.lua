-- Extends an exclusive lock on one node, if it is still ours there. Takes it again if the node has lost it, and nobody else
-- has taken it since.
--
-- Replies:
--   1         our key was there, and lives for at least TTL
--   2         no key was there; now ours is, for TTL
--   3         the same, and nobody can have had the lock here since our key was gone: the node has
--             forgotten its locks, and grants nothing to newcomers
--   0         another owner's key is there, or the lock was taken from this owner by force
--   -1        no key was there, and it is too late to set it
--   {-2, n}   no key was there, and the fence is n: another owner was granted the lock here since
--
-- A key is never shortened: a late, short extension must not undo an earlier, longer one.

local redis, KEYS, ARGV = redis, KEYS, ARGV -- a local is found faster than a global
local LOCK, MARK, TOMBSTONE, FENCE = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local OWNER, TTL, UNTIL, QUARANTINE, NUMBER, UP_TO, FENCE_TTL = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6], ARGV[7]

-- The end of a fence is never brought forward either.

-- The values under the lock's key and under the tombstone's; nil: not read yet. A batch has read them for all its calls.
local owner, forced = ARGV.owner, ARGV.forced
if owner == nil then
  -- One command for both, if that is permitted.
  local read = redis.pcall('MGET', LOCK, TOMBSTONE)
  owner, forced = read[1], read[2]
end
if owner ~= OWNER then
  -- MGET does not see another kind's key, and the call before in the same batch may have set ours. pcall: another kind's key
  -- under that name is not ours either, and no fault of the node.
  owner = redis.pcall('GET', LOCK)
  if type(owner) == 'table' and not string.find(owner.err, 'WRONGTYPE', 1, true) then
    return owner -- a permission is missing
  end
  forced = redis.pcall('GET', TOMBSTONE)
  if type(forced) == 'table' and not string.find(forced.err, 'WRONGTYPE', 1, true) then
    return forced -- a permission is missing
  end
end
if forced then
  return 0
elseif owner == OWNER then
  -- include prolong.lua
elseif owner then
  return 0
end
-- include repair.lua
redis.call('SET', LOCK, OWNER, 'PX', TTL)
-- include repaired.lua
