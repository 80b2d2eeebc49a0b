-- Tells a node the number of a reentrant lock that was won, or of a read-write lock that was won to write, if the lock is still
-- ours there.
--
-- Replies:
--   1   our key is there, and the fence is that number or a larger one
--   0   our key is not there, and the fence is what it was
--
-- A node that is not ours must not reply 1: it may already have answered its present owner, with a smaller number.

local LOCK, FENCE = KEYS[1], KEYS[2]
local OWNER, NUMBER, OUTLIVES = ARGV[1], ARGV[2], ARGV[3]

-- include field.lua
if ours ~= 1 then
  return 0
end
-- include confirmed.lua
return 1
