-- Takes an exclusive lock on one node, or reports the obstacle.
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
local OWNER, TTL, ADMITTED, PROPOSAL, FENCE_TTL, WAITER = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6] or ''

-- Most calls find a free lock and a proposal that is large enough. For these the script makes no function, and turns no
-- number into text: either takes a server about as long as a command does.

local LARGEST = 2251799813685247 -- 2^51 - 1; lua/README.md says why

local CLASS = 'x'
-- include read.lua
-- include check.lua

local step = 1 -- how far above the number of an earlier grant this one must be
local fence_ttl = FENCE and FENCE_TTL
if blocked or not redis.call('SET', LOCK, OWNER, 'NX', 'PX', TTL) then
  local kind = redis.call('TYPE', LOCK).ok
  local remaining = redis.call('PTTL', LOCK)
  if kind ~= 'string' and kind ~= 'none' and (kind ~= 'hash' or remaining < 0) then
    -- Locks are strings, or hashes that expire (Redisson's and our reentrant and read-write ones).
    return {-2, kind}
  elseif kind ~= 'string' or redis.call('GET', LOCK) ~= OWNER then
    local is_shared = kind == 'hash'
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
redis.call('DEL', LOCK)
return {-3, last and last < math.huge and number > LARGEST and 0 or 1}
