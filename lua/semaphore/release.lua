-- Gives permits of a semaphore back on one node, if they are still ours there, and tells the waiters. The permits are then
-- free, or the node keeps them for a while, although nobody has them.
--
-- Replies:
--   1        our hold was there, and is deleted, or replaced by a kept one
--   {1, n}   the same, and n connections were told about it
--   0        our hold was not there

local redis, KEYS, ARGV = redis, KEYS, ARGV -- a local is found faster than a global
local LOCK, TOMBSTONE = KEYS[1], KEYS[2]
local OWNER, CHANNEL, KEEP_UNTIL, KEEP_BY, KEPT, PERMITS
  = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6] -- and SLOT..

-- Kept permits are kept on all nodes: also on a node where our hold is gone, if nobody else has the slots. Their end is
-- compared with the node's own clock, since a release may come late, or again. Permits that were taken by force are not
-- kept.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local keeps = KEEP_UNTIL and now < tonumber(KEEP_BY) and now < tonumber(KEEP_UNTIL) and not redis.pcall('GET', TOMBSTONE)

-- pcall: another kind's key under that name is not ours either, and no fault of the node.
local ours = redis.pcall('HDEL', LOCK, OWNER)
local reply = 0
if ours == 1 then
  reply = 1
  -- pcall: the permits are given back even if publishing is not permitted. Waiters poll now and then.
  local told = redis.pcall('PUBLISH', CHANNEL, OWNER)
  if type(told) == 'number' and told > 0 then
    reply = {1, told}
  end
elseif type(ours) == 'table' then
  return string.find(ours.err, 'WRONGTYPE', 1, true) and 0 or ours -- else a permission is missing
end
-- With more holds left, checking all of them would cost more than it gains.
local MOST = 100
if not keeps and (reply == 0 or redis.call('HLEN', LOCK) > MOST) then
  return reply
end
local fields = redis.call('HGETALL', LOCK)
local permits, last, taken = false, 0, {}
for i = 1, #fields, 2 do
  if fields[i] == 'permits' then
    permits = fields[i + 1]
  else
    local ends, slots = string.match(fields[i + 1], '^(%d+)( [%d ]+)$')
    ends = tonumber(ends)
    if not ends then
      return reply -- other data
    elseif ends >= now then
      for slot in string.gmatch(slots, '%d+') do
        taken[slot] = true
      end
    end
    last = math.max(last, ends)
  end
end
if #fields > 0 and (not permits or redis.call('PTTL', LOCK) < 0) then
  return reply -- a reentrant lock, a read-write lock, or what has no end and is no lock
end
keeps = keeps and (last < now or permits == PERMITS)
for i = 7, #ARGV do
  keeps = keeps and not taken[ARGV[i]]
end
if keeps then
  last = math.max(last, tonumber(KEEP_UNTIL))
  local hold = string.format('%.0f %s', KEEP_UNTIL, table.concat(ARGV, ' ', 7))
  redis.call('HSET', LOCK, 'permits', PERMITS, KEPT, hold)
end
-- The key ends with the last hold, so that locks of other kinds do not wait for longer.
if last > now then
  -- pcall: a kept hold without an end must not be left behind.
  local set = redis.pcall('PEXPIRE', LOCK, last - now)
  if type(set) == 'table' then
    if keeps and #fields > 0 then
      redis.call('HDEL', LOCK, KEPT)
    elseif keeps then
      redis.call('HDEL', LOCK, KEPT, 'permits')
    end
    return set -- a permission is missing
  end
elseif permits then
  redis.call('DEL', LOCK)
end
return reply
