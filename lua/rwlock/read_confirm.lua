-- Tells a node the number of a read-write lock that was won to read, if our hold is still there.
--
-- Replies:
--   1   our hold is there, and the fence is that number or a larger one
--   0   our hold is not there, and the fence is what it was
--
-- A node that is not ours must not reply 1: it may already have answered its present owner, with a smaller number.

local LOCK, FENCE, READS = KEYS[1], KEYS[2], KEYS[3]
local OWNER, NUMBER, OUTLIVES = ARGV[1], ARGV[2], ARGV[3]

-- include field.lua
if ours ~= 1 then
  return 0
end
-- include confirmed.lua
if left == -1 or left >= ttl then
  ttl = left
end
-- pcall: another type of value under that key shows nothing about reads.
local reads = redis.pcall('HMGET', READS, 'last', 'others')
if not reads.err then
  -- The earlier fence is a number of a write, unless it is the last number of a read.
  local is_of_reads = reads[1] and tonumber(reads[1]) == known
  redis.call('HSET', READS, 'last', number, 'others', is_of_reads and reads[2] or known)
  if ttl ~= -1 then
    redis.call('PEXPIRE', READS, ttl)
  end
elseif not string.find(reads.err, 'WRONGTYPE', 1, true) then
  return reads -- a permission is missing
end
return 1
