-- Takes a read-write lock to write on one node, or reports the obstacle.
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
-- Running it again for the same owner grants again, with the same number: a retry after a lost reply
-- changes nothing.

local redis, KEYS, ARGV = redis, KEYS, ARGV -- a local is found faster than a global
local LOCK, MARK, RESERVED, FENCE = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local OWNER, TTL, ADMITTED, WAITING_CHANNEL, PROPOSAL, FENCE_TTL, WAITER
  = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6], ARGV[7] or ''

local LARGEST = 2251799813685247 -- 2^51 - 1; lua/README.md says why

local CLASS = 'x'
-- include read.lua
-- include check.lua

local kind = redis.call('TYPE', LOCK).ok
local remaining = kind ~= 'none' and redis.call('PTTL', LOCK) or 0
local mode, ours = false, false
if kind == 'hash' and remaining >= 0 then
  local fields = redis.call('HMGET', LOCK, 'mode', OWNER)
  mode, ours = fields[1], fields[2]
elseif kind ~= 'none' and kind ~= 'string' then
  -- Locks are strings, or hashes that expire.
  return {-2, kind}
end
if (kind ~= 'none' or blocked) and not ours then
  local is_shared = false
  -- include reserve.lua
  if is_new and mode == 'read' then
    redis.pcall('PUBLISH', WAITING_CHANNEL, OWNER)
  end
  return {0, kind == 'none' and blocked or remaining}
end

-- include next_number.lua

redis.call('HSET', LOCK, 'mode', 'write', OWNER, 1)
-- Never shortened: this may be a late copy, and the lock may have been extended since.
if remaining < tonumber(TTL) then
  -- pcall: a lock without an end must not be left behind.
  local set = redis.pcall('PEXPIRE', LOCK, TTL)
  if type(set) == 'table' then
    if not ours then
      redis.call('HDEL', LOCK, OWNER, 'mode')
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
