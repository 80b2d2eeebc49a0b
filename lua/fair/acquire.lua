-- Takes a fair lock on one node, if it is free and the caller is the first of those who wait; or says who is in the way,
-- and notes the caller's place among them.
--
-- KEYS[1]  the lock
-- KEYS[2]  the node's mark
-- KEYS[3]  the queue: those who wait, in the order of their tickets
-- KEYS[4]  until when each of them waits, in milliseconds of this node's clock
-- KEYS[5]  the lock's fence, which keeps the largest number of a grant (not given without fencing)
-- ARGV[1]  the owner id of this attempt
-- ARGV[2]  the TTL in milliseconds
-- ARGV[3]  the mark under which the node grants; empty: under any
-- ARGV[4]  as what the caller stands in the queue
-- ARGV[5]  its ticket; 0: it has none yet
-- ARGV[6]  for how many milliseconds it waits at least, if it is refused; 0: it does not
-- ARGV[7]  the number that is proposed for the grant (not given without fencing)
-- ARGV[8]  the fence's TTL in milliseconds, which outlives the lock (not given without fencing)
--
-- Replies (the shape that every acquire script has):
--   {1, number}      granted; number is this node's number of the grant, 0 without fencing
--   {0, ms, ticket}  refused: somebody's key is there, or somebody else goes first, for ms more milliseconds (-1: without
--                    expiry). A caller with a ticket waits in the queue; to one without, ticket is the largest there
--   {0, ms}          the same, and the queue is full, so that the caller is not in it
--   {-1, 0}          not admitted: the mark is another one, so the node may have forgotten locks
--   {-2, type}       the name belongs to something that is no lock, of that type; or a key of the queue's to no queue
--   {-3, 0}          the fence is the largest number that there is
--   {-3, 1}          the fence is no number
--
-- Running it again for the same owner grants again, with the same number, and leaves the caller where it stands in the
-- queue: a retry after a lost reply changes nothing.

local LARGEST = 2251799813685247 -- 2^51 - 1; lua/README.md says why
local MOST = 1000 -- callers in the queue
local LONGEST = 60000 -- milliseconds: no caller asks to be kept for longer, so what is left of more is of another time

-- Before anything else, and for late copies as well: one that was sent before the node forgot its
-- locks must not take one that it has forgotten.
if ARGV[3] ~= '' then
  -- pcall: something else under the mark's key is another mark, and no fault of the node.
  local mark = redis.pcall('GET', KEYS[2])
  if mark ~= ARGV[3] then
    if type(mark) == 'table' and not string.find(mark.err, 'WRONGTYPE', 1, true) then
      return mark -- a permission is missing
    end
    return {-1, 0}
  end
end

local first = redis.pcall('ZRANGE', KEYS[3], 0, 0)
if first.err then
  if not string.find(first.err, 'WRONGTYPE', 1, true) then
    return first -- a permission is missing
  end
  return {-2, redis.call('TYPE', KEYS[3]).ok}
end
first = first[1]
local waits, is_in_queue = ARGV[5] ~= '0' and ARGV[6] ~= '0', true
local ahead_ms = 0 -- how long the first one may still wait
if first or waits then
  local ends = redis.pcall('ZCARD', KEYS[4])
  if type(ends) == 'table' then
    if not string.find(ends.err, 'WRONGTYPE', 1, true) then
      return ends -- a permission is missing
    end
    return {-2, redis.call('TYPE', KEYS[4]).ok}
  end
  local time = redis.call('TIME')
  local now = time[1] * 1000 + math.floor(time[2] / 1000)
  if waits then
    if not redis.call('ZSCORE', KEYS[3], ARGV[4]) and redis.call('ZCARD', KEYS[3]) >= MOST then
      for _ = 1, MOST do
        local next_over = redis.call('ZRANGE', KEYS[4], 0, 0)[1]
        if not next_over or redis.call('ZSCORE', KEYS[4], next_over) - now > 0 then
          break
        end
        redis.call('ZREM', KEYS[3], next_over)
        redis.call('ZREM', KEYS[4], next_over)
      end
      is_in_queue = redis.call('ZCARD', KEYS[3]) < MOST
    end
    if is_in_queue then
      -- Its end first, and the place last: if a command fails on the way, nobody stands in the queue for ever.
      redis.call('ZADD', KEYS[4], now + ARGV[6], ARGV[4])
      if redis.call('PTTL', KEYS[4]) < tonumber(ARGV[6]) then
        redis.call('PEXPIRE', KEYS[4], ARGV[6])
      end
      redis.call('ZADD', KEYS[3], ARGV[5], ARGV[4])
      if redis.call('PTTL', KEYS[3]) < tonumber(ARGV[6]) then
        redis.call('PEXPIRE', KEYS[3], ARGV[6])
      end
    end
  end
  -- Those who do not wait any more are in nobody's way. In the middle of the queue they are not looked for.
  for _ = 1, MOST + 1 do
    first = redis.call('ZRANGE', KEYS[3], 0, 0)[1]
    ahead_ms = first and (redis.call('ZSCORE', KEYS[4], first) or 0) - now or 0
    if not first or ahead_ms > 0 and ahead_ms <= LONGEST then
      break
    end
    redis.call('ZREM', KEYS[3], first)
    redis.call('ZREM', KEYS[4], first)
  end
end

local kind = redis.call('TYPE', KEYS[1]).ok
local remaining, ours = 0, false
if kind ~= 'none' then
  remaining = redis.call('PTTL', KEYS[1])
  if kind ~= 'string' and (kind ~= 'hash' or remaining < 0) then
    -- Locks are strings, or hashes that expire.
    return {-2, kind}
  end
  ours = kind == 'string' and redis.call('GET', KEYS[1]) == ARGV[1]
end
local in_the_way = kind ~= 'none' and remaining or first and first ~= ARGV[4] and ahead_ms
if in_the_way and not ours then
  if not is_in_queue then
    return {0, in_the_way}
  elseif waits then
    return {0, in_the_way, tonumber(ARGV[5])}
  end
  return {0, in_the_way, tonumber(redis.call('ZRANGE', KEYS[3], -1, -1, 'WITHSCORES')[2] or 0)}
end

local number, text, known = 0, ARGV[7], false
if KEYS[5] then
  -- pcall: something else under the fence's key is no fault of the node.
  known = redis.pcall('GET', KEYS[5])
  local last
  if type(known) == 'table' then
    if not string.find(known.err, 'WRONGTYPE', 1, true) then
      return known -- a permission is missing
    end
  else
    last = tonumber(known or 0)
  end
  -- Nobody else was granted the lock since a grant of before; if the fence has risen, it is this owner's own number.
  local step = ours and 0 or 1
  number = tonumber(ARGV[7])
  if last and not (last + step <= number) then
    number = last + step
    text = number
  end
  if not (last and number <= LARGEST) then
    return {-3, last and last < math.huge and number > LARGEST and 0 or 1}
  end
end
-- Never shortened: this may be a late copy, and the lock may have been extended since.
if remaining < tonumber(ARGV[2]) then
  redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
end
if KEYS[5] then
  local fence_ttl = ARGV[8]
  if remaining > tonumber(ARGV[2]) then
    fence_ttl = fence_ttl + remaining - ARGV[2]
  end
  -- Its end is never brought forward: the number may be ahead of the time.
  local left = known and redis.call('PTTL', KEYS[5]) or -2
  if left == -1 or left >= tonumber(fence_ttl) then
    redis.call('SET', KEYS[5], text, 'KEEPTTL')
  else
    redis.call('SET', KEYS[5], text, 'PX', fence_ttl)
  end
end
return {1, number}
