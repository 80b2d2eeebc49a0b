-- Asks the owners of a lock on one node to give it up. It changes nothing of the lock.
--
-- KEYS[1]  the lock
-- KEYS[2]  the request to an owner (one for each owner)
-- ARGV[1]  the request: 'ID REASON'
-- ARGV[2]  the channel on which the holders are told that there is one
--
-- Replies:
--   n   so many owners were asked; 0 if the lock has no key here, or one without expiry, which is no lock
--
-- A request lives as long as the lock's key does without a renewal: by then a holder that renews has read it. For a second at
-- least, since a renewal may be on its way. It names its owner, so that no later holder meets it.

local SHORTEST = 1000 -- milliseconds

local ms = redis.call('PTTL', KEYS[1])
if ms < 0 then
  return 0
end
for i = 2, #KEYS do
  redis.call('SET', KEYS[i], ARGV[1], 'PX', math.max(ms, SHORTEST))
end
-- pcall: the request is there, whether or not we may say so.
redis.pcall('PUBLISH', ARGV[2], '1')
return #KEYS - 1
