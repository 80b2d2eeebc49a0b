-- Takes an exclusive lock on one node, or says who is in the way.
--
-- KEYS[1]  the lock
-- KEYS[2]  the node's mark
-- KEYS[3]  who has reserved the name: the priorities of waiters, the oldest first
-- KEYS[4]  the lock's fence, which keeps the largest number of a grant (not given without fencing)
-- ARGV[1]  the owner id of this attempt
-- ARGV[2]  the TTL in milliseconds
-- ARGV[3]  the mark under which the node grants; empty: under any
-- ARGV[4]  the number that is proposed for the grant (not given without fencing)
-- ARGV[5]  the fence's TTL in milliseconds, which outlives the lock (not given without fencing)
-- ARGV[6]  the caller's priority, and behind it, if it reserves the name when it is refused, for how many ms (given only to a waiter)
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

-- Most calls go straight through, to a free lock and a proposal that is large enough. No function is
-- made on that way, and no number becomes text: either takes a server about as long as a command does.

local redis, KEYS, ARGV = redis, KEYS, ARGV -- a local is found faster than a global
local LARGEST = 2251799813685247 -- 2^51 - 1; lua/README.md says why

local RESERVED, FENCE, CLASS = KEYS[3], KEYS[4], 'x'
local WAITER = FENCE and ARGV[6] or not FENCE and ARGV[4] or ''
-- include read.lua
-- include check.lua

local step = 1 -- how far above the number of an earlier grant this one must be
local fence_ttl = FENCE and ARGV[5]
if blocked or not redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
  local kind = redis.call('TYPE', KEYS[1]).ok
  local remaining = redis.call('PTTL', KEYS[1])
  if kind ~= 'string' and kind ~= 'none' and (kind ~= 'hash' or remaining < 0) then
    -- Locks are strings, or hashes that expire (Redisson's and our reentrant and read-write ones).
    return {-2, kind}
  elseif kind ~= 'string' or redis.call('GET', KEYS[1]) ~= ARGV[1] then
    local is_shared = kind == 'hash'
    -- include reserve.lua
    return {0, kind == 'none' and blocked or remaining}
  end
  -- Never shortened: this may be a late copy, and the lock may have been extended since.
  if remaining < tonumber(ARGV[2]) then
    redis.call('PEXPIRE', KEYS[1], ARGV[2])
  elseif fence_ttl then
    fence_ttl = fence_ttl + remaining - ARGV[2]
  end
  -- Nobody else was granted the lock since; if the fence has risen, it is this owner's own number.
  step = 0
  known = nil -- the other copy may have been made in the same batch
end
-- include granted.lua
if not FENCE then
  return {1, 0}
end
local PROPOSAL = ARGV[4]
-- include number.lua
redis.call('DEL', KEYS[1])
return {-3, last and last < math.huge and number > LARGEST and 0 or 1}
