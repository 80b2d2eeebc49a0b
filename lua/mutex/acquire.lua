-- Takes an exclusive lock on one node, or says who is in the way.
--
-- KEYS[1]  the lock
-- ARGV[1]  the owner id of this attempt
-- ARGV[2]  the TTL in milliseconds
--
-- Replies (the shape that every acquire script has):
--   {1, number}   granted; number is this node's number of the grant, 0 where it counts none
--   {0, ms}       refused: somebody's key is there for ms more milliseconds (-1: without expiry)
--   {-1, 0}       not admitted: the node may have forgotten locks (no script answers it yet)
--   {-2, type}    the name belongs to something that is no lock, of that type
--
-- Running it again for the same owner grants again: a retry after a lost reply changes nothing.

if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
  return {1, 0}
end
local kind = redis.call('TYPE', KEYS[1]).ok
local remaining = redis.call('PTTL', KEYS[1])
if kind == 'string' then
  if redis.call('GET', KEYS[1]) == ARGV[1] then
    -- Never shortened: this may be a late copy, and the lock may have been extended since.
    if remaining < tonumber(ARGV[2]) then
      redis.call('PEXPIRE', KEYS[1], ARGV[2])
    end
    return {1, 0}
  end
elseif kind ~= 'hash' or remaining < 0 then
  -- Locks are strings, or hashes that expire (Redisson's and our reentrant and read-write ones).
  return {-2, kind}
end
return {0, remaining}
