-- Takes a hold of a read-write lock to read on one node, or reports the obstacle.
--
-- Replies (the shape that every acquire script has):
--   {1, number}   granted; number is this node's number of the grant, 0 without fencing
--   {0, ms}       refused: another owner's key is there, or another caller goes first, for ms more milliseconds (-1: without
--                 expiry)
--   {-1, 0}       not admitted: the mark is another one, so the node may have forgotten locks
--   {-2, type}    the name belongs to something that is not a lock, of that type
--   {-3, 0}       the fence is the largest number that there is
--   {-3, 1}       the fence is not a number
--
-- Running it again for the same owner grants again, whichever caller goes next, with a number that is not smaller: a retry
-- after a lost reply changes nothing for anybody.

local redis, KEYS, ARGV = redis, KEYS, ARGV -- a local is found faster than a global
local LOCK, MARK, RESERVED, READ_END, FENCE, READS = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local OWNER, TTL, ADMITTED, PROPOSAL, FENCE_TTL, WAITER = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6] or ''

local LARGEST = 2251799813685247 -- 2^51 - 1; lua/README.md says why

local CLASS = 'r'
-- include read.lua
-- include check.lua

local kind = redis.call('TYPE', LOCK).ok
local remaining = kind ~= 'none' and redis.call('PTTL', LOCK) or 0
local mode, ours = false, false
if kind == 'hash' and remaining >= 0 then
  local fields = redis.call('HMGET', LOCK, 'mode', OWNER)
  mode = fields[1]
  -- A hold whose string is gone is over, even if others keep the lock alive with its field in it.
  ours = fields[2] and redis.call('PTTL', READ_END) ~= -2
elseif kind ~= 'none' and kind ~= 'string' then
  -- Locks are strings, or hashes that expire.
  return {-2, kind}
end
if kind ~= 'none' and mode ~= 'read' or blocked and not ours then
  local is_shared = false
  -- include reserve.lua
  return {0, (kind == 'none' or mode == 'read') and blocked or remaining}
end

-- include next_number.lua

redis.call('SET', READ_END, '1', 'PX', math.max(tonumber(TTL), ours and redis.call('PTTL', READ_END) or 0))
redis.call('HSET', LOCK, 'mode', 'read', OWNER, 1)
-- Never shortened: others may read for longer, or this may be a late copy.
if remaining < tonumber(TTL) then
  -- pcall: a lock without an end must not be left behind.
  local set = redis.pcall('PEXPIRE', LOCK, TTL)
  if type(set) == 'table' then
    if not ours then
      redis.call('DEL', READ_END)
      redis.call('HDEL', LOCK, OWNER)
      if kind == 'none' then
        redis.call('HDEL', LOCK, 'mode')
      end
    end
    return set -- a permission is missing
  end
end
-- include granted.lua
if not FENCE then
  return {1, 0}
end
-- The earlier fence is a number of a write, unless it is the last number of a read.
local others = known or 0
-- pcall: another type of value under that key shows nothing about reads.
local reads = redis.pcall('HMGET', READS, 'last', 'others')
local can_note = not reads.err
if can_note and reads[1] and known and tonumber(reads[1]) == tonumber(known) then
  others = reads[2] or known
elseif reads.err and not string.find(reads.err, 'WRONGTYPE', 1, true) then
  return reads -- a permission is missing
end
-- include fence.lua
if left == -1 or left + 1000 - fence_ttl >= 0 then
  fence_ttl = left -- the fence has kept its end
end
if can_note then
  redis.call('HSET', READS, 'last', text, 'others', others)
  if fence_ttl ~= -1 then
    redis.call('PEXPIRE', READS, fence_ttl)
  end
end
return {1, number}
