-- Takes a read-write lock to write on one node, or says who is in the way.
--
-- KEYS[1]  the lock: a hash with the field 'mode', which is 'read' or 'write', and a field for each hold
-- KEYS[2]  the node's mark
-- KEYS[3]  who has reserved the name: the priorities of waiters, the oldest first
-- KEYS[4]  the lock's fence, which keeps the largest number of a grant (not given without fencing)
-- ARGV[1]  the owner id of this attempt
-- ARGV[2]  the TTL in milliseconds
-- ARGV[3]  the mark under which the node grants; empty: under any
-- ARGV[4]  the caller's priority; empty: it has none yet. Behind it, if it reserves the name when it is refused: for how many ms
-- ARGV[5]  the channel on which those who read are told that a write waits
-- ARGV[6]  the number that is proposed for the grant (not given without fencing)
-- ARGV[7]  the fence's TTL in milliseconds, which outlives the lock (not given without fencing)
--
-- Replies (the shape that every acquire script has):
--   {1, number}   granted; number is this node's number of the grant, 0 without fencing
--   {0, ms}       refused: somebody's key is there, or somebody else goes first, for ms more milliseconds (-1: without expiry)
--   {-1, 0}       not admitted: the mark is another one, so the node may have forgotten locks
--   {-2, type}    the name belongs to something that is no lock, of that type
--   {-3, 0}       the fence is the largest number that there is
--   {-3, 1}       the fence is no number
--
-- Running it again for the same owner grants again, with the same number: a retry after a lost reply
-- changes nothing.

local redis, KEYS, ARGV = redis, KEYS, ARGV -- a local is found faster than a global
local LARGEST = 2251799813685247 -- 2^51 - 1; lua/README.md says why

local RESERVED, FENCE, WAITER, CLASS = KEYS[3], KEYS[4], ARGV[4], 'x'
-- include read.lua
-- include check.lua

local kind = redis.call('TYPE', KEYS[1]).ok
local remaining = kind ~= 'none' and redis.call('PTTL', KEYS[1]) or 0
local mode, ours = false, false
if kind == 'hash' and remaining >= 0 then
  local fields = redis.call('HMGET', KEYS[1], 'mode', ARGV[1])
  mode, ours = fields[1], fields[2]
elseif kind ~= 'none' and kind ~= 'string' then
  -- Locks are strings, or hashes that expire.
  return {-2, kind}
end
if (kind ~= 'none' or blocked) and not ours then
  local is_shared = false
  -- include reserve.lua
  if is_new and mode == 'read' then
    redis.pcall('PUBLISH', ARGV[5], ARGV[1])
  end
  return {0, kind == 'none' and blocked or remaining}
end

local TTL, PROPOSAL, FENCE_TTL = ARGV[2], ARGV[6], ARGV[7]
-- include next_number.lua

redis.call('HSET', KEYS[1], 'mode', 'write', ARGV[1], 1)
-- Never shortened: this may be a late copy, and the lock may have been extended since.
if remaining < tonumber(TTL) then
  -- pcall: a lock that cannot be given an end is not left behind.
  local set = redis.pcall('PEXPIRE', KEYS[1], TTL)
  if type(set) == 'table' then
    if not ours then
      redis.call('HDEL', KEYS[1], ARGV[1], 'mode')
    end
    return set -- a permission is missing
  end
end
-- include granted.lua
if not FENCE then
  return {1, 0}
end
-- include fence.lua
return {1, number}
