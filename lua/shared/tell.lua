-- Part of a release script of a kind that Redisson also has: tells the waiters. Sets `reply` to {1, n} if n connections were
-- told.
--
-- Needs CHANNEL, the channel of releases for our clients; REDISSONS_CHANNEL, that of Redisson's clients; and WORD, the
-- message on the latter.

-- pcall: the lock is given back even if publishing is not permitted, and waiters poll now and then. Our clients receive the
-- owner first. So they know whose release Redisson's message is, which comes right after.
local told = redis.pcall('PUBLISH', CHANNEL, OWNER)
local theirs = redis.pcall('PUBLISH', REDISSONS_CHANNEL, WORD)
told = math.max(type(told) == 'number' and told or 0, type(theirs) == 'number' and theirs or 0)
if told > 0 then
  reply = {1, told}
end
