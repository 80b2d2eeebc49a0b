-- Takes a reentrant lock on one node, or reports the obstacle.
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
-- Running it again for the same owner grants again, with the same number: a retry after a lost reply changes nothing. The
-- count of a thread's holds is known to its client alone; on the node it is 1.

local redis, KEYS, ARGV = redis, KEYS, ARGV -- a local is found faster than a global
local LOCK, MARK, RESERVED, FENCE = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local OWNER, TTL, ADMITTED, PROPOSAL, FENCE_TTL, WAITER = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6] or ''

-- Most calls find a free lock and a proposal that is large enough. For these the script makes no function, and turns no
-- number into text: either takes a server about as long as a command does.

local LARGEST = 2251799813685247 -- 2^51 - 1; lua/README.md says why

local CLASS = 'x'
-- include read.lua
-- include check.lua

local step = 1 -- how far above the number of an earlier grant this one must be
local fence_ttl = FENCE and FENCE_TTL
local kind = redis.call('TYPE', LOCK).ok
if kind == 'none' and not blocked then
  redis.call('HSET', LOCK, OWNER, 1)
  -- pcall: a lock without an end must not be left behind.
  local set = redis.pcall('PEXPIRE', LOCK, TTL)
  if type(set) == 'table' then
    redis.call('HDEL', LOCK, OWNER)
    return set -- a permission is missing
  end
else
  local remaining = redis.call('PTTL', LOCK)
  if kind ~= 'string' and kind ~= 'none' and (kind ~= 'hash' or remaining < 0) then
    -- Locks are strings (our mutex), or hashes that expire (also Redisson's, with one holder or more).
    return {-2, kind}
  elseif kind ~= 'hash' or redis.call('HEXISTS', LOCK, OWNER) == 0 then
    local is_shared = kind == 'hash' and #WAITER > 34
      and redis.call('HEXISTS', LOCK, 'mode') + redis.call('HEXISTS', LOCK, 'permits') > 0
    -- include reserve.lua
    return {0, kind == 'none' and blocked or remaining}
  end
  -- include again.lua
end
-- include granted.lua
if not FENCE then
  return {1, 0}
end
-- include number.lua
redis.call('HDEL', LOCK, OWNER)
return {-3, last and last < math.huge and number > LARGEST and 0 or 1}
