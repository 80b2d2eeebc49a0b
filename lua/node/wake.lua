-- Wakes one of our own subscribers, which sleeps until a message comes: its subscriptions have to change.
--
-- ARGV[1]  the channel that only that client listens to
--
-- Replies:
--   1   always: if publishing is not permitted, or nobody listens, the subscriber soon checks by itself

-- pcall: the permission may be missing.
redis.pcall('PUBLISH', ARGV[1], '')
return 1
