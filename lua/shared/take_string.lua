-- Part of an acquire script whose lock is a string, by itself and in a batch: takes the lock, or reports the obstacle. It ends
-- the call.
--
-- Needs the names of the script's KEYS and ARGV, other than MARK and ADMITTED; and `reserved` and `known`, as read.lua sets them.

-- Most calls find a free lock and a proposal that is large enough. For these the script makes no function, and turns no
-- number into text: either takes a server about as long as a command does.

local LARGEST = 2251799813685247 -- 2^51 - 1; lua/README.md says why

local CLASS = 'x'
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
  return '0'
end
-- include number.lua
redis.call('DEL', LOCK)
return {-3, last and last < math.huge and number > LARGEST and 0 or 1}
