-- Has one of our own subscribers look at what it is to listen to: it sleeps until a message comes.
--
-- ARGV[1]  the channel that only that client listens to
--
-- Replies:
--   1   always: if nothing may be published, or nobody listens, the subscriber looks by itself, soon

-- pcall: the permission may be missing.
redis.pcall('PUBLISH', ARGV[1], '')
return 1
