-- Part of a release script: sets `keeps_for`, the time in milliseconds for which the lock is kept although nobody holds it;
-- 0: it is not kept.
--
-- Needs TOMBSTONE, the key of the owner's tombstone, or nil if the script checks it elsewhere; and KEEP_UNTIL and KEEP_BY.
-- KEEP_UNTIL is nil or '' if the lock is not to be kept. There is a tombstone if the lock was forced open, or if its holder
-- only reads by now.

-- A kept lock is kept on all nodes: also on a node where its key is gone, if no other owner's is there. Its end is compared
-- with the node's own clock, since a release may come late, or again. A lock with a tombstone is not kept.
local keeps_for = 0
if KEEP_UNTIL and KEEP_UNTIL ~= '' and not (TOMBSTONE and redis.pcall('GET', TOMBSTONE)) then
  local now = redis.call('TIME')
  local now_ms = now[1] * 1000 + now[2] / 1000
  if now_ms < tonumber(KEEP_BY) then
    keeps_for = math.ceil(KEEP_UNTIL - now_ms)
  end
end
