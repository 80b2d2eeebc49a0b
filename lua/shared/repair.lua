-- Part of an extend script whose lock is one key, which is gone: ends the call if the key must not be set again, else raises
-- the fence.
--
-- Needs UNTIL; and FENCE, NUMBER, UP_TO and FENCE_TTL, which are nil without fencing.

-- A delayed request must not take a lock that nobody holds any more.
local now = redis.call('TIME')
if now[1] * 1000 + now[2] / 1000 >= tonumber(UNTIL) then
  return -1
end
if FENCE then
  local known = tonumber(redis.call('GET', FENCE) or 0) or 0
  if known > tonumber(UP_TO) then
    return {-2, known}
  end
  local number = math.max(tonumber(NUMBER), known)
  local left = redis.call('PTTL', FENCE)
  if left == -1 or left >= tonumber(FENCE_TTL) then
    redis.call('SET', FENCE, number, 'KEEPTTL')
  else
    redis.call('SET', FENCE, number, 'PX', FENCE_TTL)
  end
end
