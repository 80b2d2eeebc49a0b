-- Tells a node the number of an exclusive lock that was won, if the lock is still ours there.
--
-- Replies:
--   1   our key is there, and the fence is that number or a larger one
--   0   our key is not there, and the fence is what it was
--
-- A node that is not ours must not reply 1: it may already have answered its present owner, with a smaller number.

local LOCK, FENCE = KEYS[1], KEYS[2]
local OWNER, NUMBER, OUTLIVES = ARGV[1], ARGV[2], ARGV[3]

-- pcall: another kind's key under that name is not ours either, and no fault of the node.
local owner = redis.pcall('GET', LOCK)
if type(owner) == 'table' and not string.find(owner.err, 'WRONGTYPE', 1, true) then
  return owner -- a permission is missing
elseif owner ~= OWNER then
  return 0
end
-- include confirmed.lua
return 1
