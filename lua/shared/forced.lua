-- Part of an extend script: sets `forced`, a string if the lock was taken from this owner by force. It ends the call if a
-- permission is missing.
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
