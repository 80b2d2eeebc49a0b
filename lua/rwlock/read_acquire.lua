-- Takes a hold of a read-write lock to read on one node, or says who is in the way.
--
-- KEYS[1]  the lock: a hash with the field 'mode', which is 'read' or 'write', and a field for each hold
-- KEYS[2]  the node's mark
-- KEYS[3]  who has reserved the name: the priorities of waiters, the oldest first
-- KEYS[4]  the string that lives for as long as this hold
-- KEYS[5]  the lock's fence, which keeps the largest number of a grant (not given without fencing)
-- KEYS[6]  'last', the fence behind the last read, and 'others', the largest number of a write (not given without fencing)
-- ARGV[1]  the owner id of this attempt
-- ARGV[2]  the TTL in milliseconds
-- ARGV[3]  the mark under which the node grants; empty: under any
-- ARGV[4]  the caller's priority; empty: it has none yet. Behind it, if it reserves the name when it is refused: for how many ms
-- ARGV[5]  the number that is proposed for the grant (not given without fencing)
-- ARGV[6]  the fence's TTL in milliseconds, which outlives the lock (not given without fencing)
--
-- Replies (the shape that every acquire script has):
--   {1, number}   granted; number is this node's number of the grant, 0 without fencing
--   {0, ms}       refused: somebody's key is there, or somebody else goes first, for ms more milliseconds (-1: without expiry)
--   {-1, 0}       not admitted: the mark is another one, so the node may have forgotten locks
--   {-2, type}    the name belongs to something that is no lock, of that type
--   {-3, 0}       the fence is the largest number that there is
--   {-3, 1}       the fence is no number
--
-- Running it again for the same owner grants again, whoever goes next, with a number that is not smaller: a retry after a
-- lost reply changes nothing for anybody.

local redis, KEYS, ARGV = redis, KEYS, ARGV -- a local is found faster than a global
local LARGEST = 2251799813685247 -- 2^51 - 1; lua/README.md says why

local RESERVED, FENCE, WAITER, CLASS = KEYS[3], KEYS[5], ARGV[4], 'r'
-- include read.lua
-- include check.lua

local kind = redis.call('TYPE', KEYS[1]).ok
local remaining = kind ~= 'none' and redis.call('PTTL', KEYS[1]) or 0
local mode, ours = false, false
if kind == 'hash' and remaining >= 0 then
  local fields = redis.call('HMGET', KEYS[1], 'mode', ARGV[1])
  mode = fields[1]
  -- A hold whose string is gone is over, also if others keep the lock alive with its field in it.
  ours = fields[2] and redis.call('PTTL', KEYS[4]) ~= -2
elseif kind ~= 'none' and kind ~= 'string' then
  -- Locks are strings, or hashes that expire.
  return {-2, kind}
end
if kind ~= 'none' and mode ~= 'read' or blocked and not ours then
  local is_shared = false
  -- include reserve.lua
  return {0, (kind == 'none' or mode == 'read') and blocked or remaining}
end

local TTL, PROPOSAL, FENCE_TTL = ARGV[2], ARGV[5], ARGV[6]
-- include next_number.lua

redis.call('SET', KEYS[4], '1', 'PX', math.max(tonumber(TTL), ours and redis.call('PTTL', KEYS[4]) or 0))
redis.call('HSET', KEYS[1], 'mode', 'read', ARGV[1], 1)
-- Never shortened: others may read for longer, or this may be a late copy.
if remaining < tonumber(TTL) then
  -- pcall: a lock that cannot be given an end is not left behind.
  local set = redis.pcall('PEXPIRE', KEYS[1], TTL)
  if type(set) == 'table' then
    if not ours then
      redis.call('DEL', KEYS[4])
      redis.call('HDEL', KEYS[1], ARGV[1])
      if kind == 'none' then
        redis.call('HDEL', KEYS[1], 'mode')
      end
    end
    return set -- a permission is missing
  end
end
-- include granted.lua
if not FENCE then
  return {1, 0}
end
-- What the fence was before says something of others, unless it was the last one of a read.
local others = known or 0
-- pcall: something else under that key says nothing of reads.
local reads = redis.pcall('HMGET', KEYS[6], 'last', 'others')
local can_note = not reads.err
if can_note and reads[1] and known and tonumber(reads[1]) == tonumber(known) then
  others = reads[2] or known
elseif reads.err and not string.find(reads.err, 'WRONGTYPE', 1, true) then
  return reads -- a permission is missing
end
-- include fence.lua
if left == -1 or left >= tonumber(fence_ttl) then
  fence_ttl = left
end
if can_note then
  redis.call('HSET', KEYS[6], 'last', text, 'others', others)
  if fence_ttl ~= -1 then
    redis.call('PEXPIRE', KEYS[6], fence_ttl)
  end
end
return {1, number}
