-- Part of a release script: raises the fence, if an extension of the lock may still be under way. That extension then finds
-- the fence above its upper limit, and does not set the key again. This part ends the call if a permission is missing.
--
-- Needs FENCE, which is nil if it is not to be raised, RAISE_TO and FENCE_TTL.

if FENCE then
  -- pcall: something else under the fence's key is no fault of the node, and no extension gets past it.
  local known = redis.pcall('GET', FENCE)
  if type(known) == 'table' then
    if not string.find(known.err, 'WRONGTYPE', 1, true) then
      return known -- a permission is missing
    end
  elseif (tonumber(known or 0) or 0) < tonumber(RAISE_TO) then
    -- Its end is never brought forward.
    local left = redis.call('PTTL', FENCE)
    if left == -1 or left >= tonumber(FENCE_TTL) then
      redis.call('SET', FENCE, RAISE_TO, 'KEEPTTL')
    else
      redis.call('SET', FENCE, RAISE_TO, 'PX', FENCE_TTL)
    end
  end
end
