-- Lets an exclusive lock live longer on one node, if it is still ours there.
--
-- KEYS[1]  the lock
-- ARGV[1]  the owner id that took it
-- ARGV[2]  how long it shall live from now on at least, in milliseconds
--
-- Replies:
--   1   our key was there, and lives for at least that long
--   0   our key was not there; it is never set again
--
-- A key is never shortened: a late, short extension must not undo an earlier, longer one.

-- pcall: another kind's key under that name is not ours either, and no fault of the node.
if redis.pcall('GET', KEYS[1]) ~= ARGV[1] then
  return 0
end
if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[2]) then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return 1
