-- Part of a release script of a kind that Redisson has as well: tells those who wait. Makes `reply` {1, n} if n connections were told.
--
-- Needs CHANNEL, on which releases are told to our clients; REDISSONS_CHANNEL, the channel of Redisson's clients; and WORD, what is said there.

-- pcall: the lock is given back, whether or not we may say so, and waiters look now and then. Our clients hear
-- of the owner first, and know by that whose release Redisson's message is, which comes right behind.
local told = redis.pcall('PUBLISH', CHANNEL, OWNER)
local theirs = redis.pcall('PUBLISH', REDISSONS_CHANNEL, WORD)
told = math.max(type(told) == 'number' and told or 0, type(theirs) == 'number' and theirs or 0)
if told > 0 then
  reply = {1, told}
end
