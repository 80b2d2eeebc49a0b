-- Part of scripts whose lock is a hash: sets `ours`, 1 if the owner, OWNER, has a field in LOCK; else 0, or an error if LOCK
-- is not a hash. It ends the call if a permission is missing.

-- pcall: another kind's key under that name is not ours either, and no fault of the node.
local ours = redis.pcall('HEXISTS', LOCK, OWNER)
if type(ours) == 'table' and not string.find(ours.err, 'WRONGTYPE', 1, true) then
  return ours -- a permission is missing
end
