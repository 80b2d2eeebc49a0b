-- Tells a node the number of a reentrant lock that was won, or of a read-write lock that was won to write, if the lock is still
-- ours there.
--
-- KEYS[1]  the lock: a hash in which the owner is a field
-- KEYS[2]  its fence, which keeps the largest number of a grant
-- ARGV[1]  the owner id that took it
-- ARGV[2]  the lock's number
-- ARGV[3]  how much longer than the lock the fence lives, in milliseconds
--
-- Replies:
--   1   our key is there, and the fence is that number or a larger one
--   0   our key is not there, and the fence is what it was
--
-- A node that is not ours must not say 1: it may have given a smaller number to its owner before.

-- include field.lua
if ours ~= 1 then
  return 0
end
-- include confirmed.lua
return 1
