-- Lets a reentrant lock live longer on one node, if it is still ours there; and takes it again if
-- the node has lost it, and nobody else has taken it since.
--
-- KEYS[1]  the lock: a hash whose one field is the owner
-- KEYS[2]  the node's mark
-- KEYS[3]  the owner's tombstone, which is there if the lock was taken from it by force
-- KEYS[4]  the lock's fence, which keeps the largest number of a grant (not given without fencing)
-- ARGV[1]  the owner id that took it
-- ARGV[2]  how long it shall live from now on at least, in milliseconds
-- ARGV[3]  until when, in milliseconds of this node's clock, a key that is gone may be set again
-- ARGV[4]  1 if newcomers are granted nothing but under an admitted mark, else 0
-- ARGV[5]  the lock's number (not given without fencing)
-- ARGV[6]  the largest fence under which a key that is gone may be set (not given without fencing)
-- ARGV[7]  the fence's TTL in milliseconds, which outlives that (not given without fencing)
--
-- Replies:
--   1         our key was there, and lives for at least that long
--   2         no key was there; now ours is, for that long
--   3         the same, and nobody can have had the lock here since our key was gone: the node has
--             forgotten what it knew, and grants nothing to newcomers
--   0         somebody else's key is there, or the lock was taken from this owner by force
--   -1        no key was there, and it is too late to set it
--   {-2, n}   no key was there, and the fence is n: somebody else was granted the lock here since
--
-- A key is never shortened: a late, short extension must not undo an earlier, longer one.

-- Nor is the end of a fence ever brought forward.

local MARK, TOMBSTONE, FENCE = KEYS[2], KEYS[3], KEYS[4]
local TTL, UNTIL, QUARANTINE, NUMBER, UP_TO, FENCE_TTL = ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6], ARGV[7]

-- include field.lua
-- A batch has read all tombstones at once.
local forced = ARGV.forced
if forced == nil then
  forced = redis.pcall('GET', TOMBSTONE)
  if type(forced) == 'table' and not string.find(forced.err, 'WRONGTYPE', 1, true) then
    return forced -- a permission is missing
  end
end
if forced then
  return 0
elseif ours == 1 then
  -- include prolong.lua
elseif redis.call('TYPE', KEYS[1]).ok ~= 'none' then
  return 0
end
-- include repair.lua
redis.call('HSET', KEYS[1], ARGV[1], 1)
redis.call('PEXPIRE', KEYS[1], TTL)
-- include repaired.lua
