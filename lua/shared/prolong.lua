-- Part of an extend script whose lock is one key, LOCK, which is still ours: lets it live longer, and its fence. It ends the
-- call, so it is the last thing in its block.
--
-- Needs TTL; and FENCE, NUMBER and FENCE_TTL, which are nil without fencing.

local fence_ttl = FENCE_TTL
local remaining = redis.call('PTTL', LOCK)
if remaining < tonumber(TTL) then
  redis.call('PEXPIRE', LOCK, TTL)
elseif fence_ttl then
  fence_ttl = fence_ttl + remaining - TTL
end
-- Where our key is, no fence is in the way, however large it is. But it must outlive the lock, however
-- long that is held.
if FENCE then
  local left = redis.call('PTTL', FENCE)
  if left == -2 then
    redis.call('SET', FENCE, NUMBER, 'PX', fence_ttl)
  elseif left ~= -1 and left < tonumber(fence_ttl) then
    -- A value that is no number may be somebody else's lock, and keeps its end. A batch has read all fences at once, before its
    -- first call, which may have made a number of it.
    local fence = tonumber(ARGV.fence) and ARGV.fence or redis.pcall('GET', FENCE)
    if type(fence) == 'string' and tonumber(fence) then
      redis.call('PEXPIRE', FENCE, fence_ttl)
    end
  end
end
return 1
