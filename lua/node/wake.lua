-- Wakes one of our own subscribers, which sleeps until a message comes: it has to change what it listens to.
--
-- ARGV[1]  the channel that only that client listens to
--
-- Replies:
--   1   always: if nothing may be published, or nobody listens, the subscriber checks by itself, soon

-- pcall: the permission may be missing.
redis.pcall('PUBLISH', ARGV[1], '')
return 1
