-- Part of an extend script: sets `forced`, false unless the owner's tombstone is there: the lock was taken from it by force, or
-- it only reads by now. It ends the call if a permission is missing.
--
-- Needs TOMBSTONE, the key of the owner's tombstone. A batch has read all tombstones at once.

local forced = ARGV.forced
if forced == nil then
  -- pcall: something else under the tombstone's key is no fault of the node.
  forced = redis.pcall('GET', TOMBSTONE)
  if type(forced) == 'table' and not string.find(forced.err, 'WRONGTYPE', 1, true) then
    return forced -- a permission is missing
  end
end
