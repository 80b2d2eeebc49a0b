-- Part of an extend script whose lock is one key, LOCK, which is still ours: extends the life of the lock and of its fence.
-- It ends the call, so it is the last part of its block.
--
-- Needs TTL; and FENCE, NUMBER and FENCE_TTL, which are nil without fencing.

local fence_ttl = FENCE_TTL
local remaining = redis.call('PTTL', LOCK)
if remaining < tonumber(TTL) then
  redis.call('PEXPIRE', LOCK, TTL)
elseif fence_ttl then
  fence_ttl = fence_ttl + remaining - TTL
end
-- If our key is there, no fence prevents the extension, however large it is. But the fence must outlive the lock, however
-- long the lock is held.
if FENCE then
  local left = redis.call('PTTL', FENCE)
  if left == -2 then
    redis.call('SET', FENCE, NUMBER, 'PX', fence_ttl)
  elseif left ~= -1 and left < tonumber(fence_ttl) then
    -- A value that is not a number may be another client's lock, and keeps its end. A batch has read all fences at once, before
    -- its first call, and that call may have set a number.
    local fence = tonumber(ARGV.fence) and ARGV.fence or redis.pcall('GET', FENCE)
    if type(fence) == 'string' and tonumber(fence) then
      redis.call('PEXPIRE', FENCE, fence_ttl)
    end
  end
end
return 1
