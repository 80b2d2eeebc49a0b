-- Part of an acquire script that has found this owner's key: the key lives for at least TTL from now. Sets `fence_ttl`,
-- `step` and `known` for `number.lua`.
--
-- Needs `remaining`, the time that the key has left, and TTL.

-- Never shortened: this may be a late copy, and the lock may have been extended since.
if remaining < tonumber(TTL) then
  redis.call('PEXPIRE', LOCK, TTL)
elseif fence_ttl then
  fence_ttl = fence_ttl + remaining - TTL
end
-- Nobody else was granted the lock since; if the fence has risen, it is this owner's own number.
step = 0
known = nil -- the other copy may have been made in the same batch
