-- Part of an acquire script whose lock is a hash with one field, the owner: does what take_string.lua does, and needs the same.

-- Most calls find a free lock and a proposal that is large enough. For these the script makes no function, and turns no
-- number into text: either takes a server about as long as a command does.

local LARGEST = 2251799813685247 -- 2^51 - 1; lua/README.md says why

local CLASS = 'x'
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
  return '0'
end
-- include number.lua
redis.call('HDEL', LOCK, OWNER)
return {-3, last and last < math.huge and number > LARGEST and 0 or 1}
