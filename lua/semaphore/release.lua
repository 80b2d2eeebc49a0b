-- Gives permits of a semaphore back on one node, if they are still ours there, and tells those who wait for one. They are
-- free then, or the node keeps them for a while, although nobody has them.
--
-- KEYS[1]  the semaphore: a hash with the field 'permits', and a field for each owner, 'END SLOT ..': when its hold ends, in
--          milliseconds of this node's clock, and which slots it has
-- KEYS[2]  the owner's tombstone, which is there if the permits were taken from it by force (given only to keep)
-- ARGV[1]  the owner id that took them
-- ARGV[2]  the channel on which its releases are told
-- ARGV[3]  until when, in milliseconds of this node's clock, they are kept (given only to keep)
-- ARGV[4]  by when, in milliseconds of this node's clock, it has to begin to keep them (given only to keep)
-- ARGV[5]  who has them while they are kept (given only to keep)
-- ARGV[6]  how many permits the semaphore has (given only to keep)
-- ARGV[7]  a slot that is kept, from 0 on (one for each slot; given only to keep)
--
-- Replies:
--   1        our hold was there, and is deleted, or somebody else's for as long as it is kept
--   {1, n}   the same, and so many connections were told of it
--   0        our hold was not there

-- What is kept is kept on all nodes, so also where our hold is gone, and nobody else has the slots. Until when is told
-- by the node's own clock, for a release may come late, or again. What was taken by force is not kept.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local keeps = ARGV[3] and now < tonumber(ARGV[4]) and now < tonumber(ARGV[3]) and not redis.pcall('GET', KEYS[2])

-- pcall: another kind's key under that name is not ours either, and no fault of the node.
local ours = redis.pcall('HDEL', KEYS[1], ARGV[1])
local reply = 0
if ours == 1 then
  reply = 1
  -- pcall: they are given back, whether or not we may say so. Who waits looks now and then.
  local told = redis.pcall('PUBLISH', ARGV[2], ARGV[1])
  if type(told) == 'number' and told > 0 then
    reply = {1, told}
  end
elseif type(ours) == 'table' then
  return string.find(ours.err, 'WRONGTYPE', 1, true) and 0 or ours -- else a permission is missing
end
-- With so many holds left, to look at all of them would cost more than what it is for.
local MOST = 100
if not keeps and (reply == 0 or redis.call('HLEN', KEYS[1]) > MOST) then
  return reply
end
local fields = redis.call('HGETALL', KEYS[1])
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
if #fields > 0 and (not permits or redis.call('PTTL', KEYS[1]) < 0) then
  return reply -- a reentrant lock, a read-write lock, or what has no end and is no lock
end
keeps = keeps and (last < now or permits == ARGV[6])
for i = 7, #ARGV do
  keeps = keeps and not taken[ARGV[i]]
end
if keeps then
  last = math.max(last, tonumber(ARGV[3]))
  local hold = string.format('%.0f %s', ARGV[3], table.concat(ARGV, ' ', 7))
  redis.call('HSET', KEYS[1], 'permits', ARGV[6], ARGV[5], hold)
end
-- The key ends with the last hold, so that locks of other kinds do not wait for longer.
if last > now then
  -- pcall: a hold that is kept and cannot be given an end is not left behind.
  local set = redis.pcall('PEXPIRE', KEYS[1], last - now)
  if type(set) == 'table' then
    if keeps and #fields > 0 then
      redis.call('HDEL', KEYS[1], ARGV[5])
    elseif keeps then
      redis.call('HDEL', KEYS[1], ARGV[5], 'permits')
    end
    return set -- a permission is missing
  end
elseif permits then
  redis.call('DEL', KEYS[1])
end
return reply
