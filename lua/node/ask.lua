-- Asks the owners of a lock on one node to give it up. It changes nothing about the lock.
--
-- KEYS[1]  the lock
-- KEYS[2]  the request to an owner (one for each owner)
-- ARGV[1]  the request: 'ID REASON'
-- ARGV[2]  the channel on which the holders are told about the request
--
-- Replies:
--   n   number of owners that were asked; 0 if the lock has no key here, or one without expiry, which is not a lock
--
-- A request lives as long as the lock's key does without a renewal: a holder that renews has read it by then. It lives for
-- at least one second, since a renewal may be under way. It names its owner, so that no later holder finds it.

local SHORTEST = 1000 -- milliseconds

local ms = redis.call('PTTL', KEYS[1])
if ms < 0 then
  return 0
end
for i = 2, #KEYS do
  redis.call('SET', KEYS[i], ARGV[1], 'PX', math.max(ms, SHORTEST))
end
-- pcall: the request is there even if publishing is not permitted.
redis.pcall('PUBLISH', ARGV[2], '1')
return #KEYS - 1
