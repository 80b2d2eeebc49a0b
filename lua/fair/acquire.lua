-- Takes a fair lock on one node, if it is free and the caller is the first of those who wait; or says who is in the way,
-- and notes the caller's place among them.
--
-- KEYS[1]  the lock
-- KEYS[2]  the node's mark
-- KEYS[3]  who has reserved the name: the priorities of waiters, the oldest first
-- KEYS[4]  the queue: those who wait, in the order of their tickets
-- KEYS[5]  until when each of them waits, in milliseconds of this node's clock
-- KEYS[6]  the lock's fence, which keeps the largest number of a grant (not given without fencing)
-- ARGV[1]  the owner id of this attempt
-- ARGV[2]  the TTL in milliseconds
-- ARGV[3]  the mark under which the node grants; empty: under any
-- ARGV[4]  the caller's priority; empty: it has none yet. Behind it, if it reserves the name when it is refused: for how many ms
-- ARGV[5]  as what the caller stands in the queue
-- ARGV[6]  its ticket in the queue; 0: it has none yet
-- ARGV[7]  for how many milliseconds it waits at least, if it is refused; 0: it does not
-- ARGV[8]  the number that is proposed for the grant (not given without fencing)
-- ARGV[9]  the fence's TTL in milliseconds, which outlives the lock (not given without fencing)
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

local redis, KEYS, ARGV = redis, KEYS, ARGV -- a local is found faster than a global
local LARGEST = 2251799813685247 -- 2^51 - 1; lua/README.md says why
local MOST = 1000 -- callers in the queue
local LONGEST = 60000 -- milliseconds: no caller asks to be kept for longer, so what is left of more is of another time

local RESERVED, FENCE, WAITER, CLASS = KEYS[3], KEYS[6], ARGV[4], 'x'
-- include read.lua
-- include check.lua

local first = redis.pcall('ZRANGE', KEYS[4], 0, 0)
if first.err then
  if not string.find(first.err, 'WRONGTYPE', 1, true) then
    return first -- a permission is missing
  end
  return {-2, redis.call('TYPE', KEYS[4]).ok}
end
first = first[1]
local waits, is_in_queue = ARGV[6] ~= '0' and ARGV[7] ~= '0', true
local ahead_ms = 0 -- how long the first one may still wait
if first or waits then
  local ends = redis.pcall('ZCARD', KEYS[5])
  if type(ends) == 'table' then
    if not string.find(ends.err, 'WRONGTYPE', 1, true) then
      return ends -- a permission is missing
    end
    return {-2, redis.call('TYPE', KEYS[5]).ok}
  end
  local time = redis.call('TIME')
  local now = time[1] * 1000 + math.floor(time[2] / 1000)
  if waits then
    if not redis.call('ZSCORE', KEYS[4], ARGV[5]) and redis.call('ZCARD', KEYS[4]) >= MOST then
      for _ = 1, MOST do
        local next_over = redis.call('ZRANGE', KEYS[5], 0, 0)[1]
        if not next_over or redis.call('ZSCORE', KEYS[5], next_over) - now > 0 then
          break
        end
        redis.call('ZREM', KEYS[4], next_over)
        redis.call('ZREM', KEYS[5], next_over)
      end
      is_in_queue = redis.call('ZCARD', KEYS[4]) < MOST
    end
    if is_in_queue then
      -- Its end first, and the place last: if a command fails on the way, nobody stands in the queue for ever.
      redis.call('ZADD', KEYS[5], now + ARGV[7], ARGV[5])
      if redis.call('PTTL', KEYS[5]) < tonumber(ARGV[7]) then
        redis.call('PEXPIRE', KEYS[5], ARGV[7])
      end
      redis.call('ZADD', KEYS[4], ARGV[6], ARGV[5])
      if redis.call('PTTL', KEYS[4]) < tonumber(ARGV[7]) then
        redis.call('PEXPIRE', KEYS[4], ARGV[7])
      end
    end
  end
  -- Those who do not wait any more are in nobody's way. In the middle of the queue they are not looked for.
  for _ = 1, MOST + 1 do
    first = redis.call('ZRANGE', KEYS[4], 0, 0)[1]
    ahead_ms = first and (redis.call('ZSCORE', KEYS[5], first) or 0) - now or 0
    if not first or ahead_ms > 0 and ahead_ms <= LONGEST then
      break
    end
    redis.call('ZREM', KEYS[4], first)
    redis.call('ZREM', KEYS[5], first)
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
local is_behind = first and first ~= ARGV[5]
local in_the_way = kind ~= 'none' and remaining or is_behind and ahead_ms or blocked
if in_the_way and not ours then
  if not is_behind then
    -- Else the one behind could be ahead by its reservation, and the first one by the queue.
    local is_shared = kind == 'hash'
    -- include reserve.lua
  end
  if not is_in_queue then
    return {0, in_the_way}
  elseif waits then
    return {0, in_the_way, tonumber(ARGV[6])}
  end
  return {0, in_the_way, tonumber(redis.call('ZRANGE', KEYS[4], -1, -1, 'WITHSCORES')[2] or 0)}
end

local TTL, PROPOSAL, FENCE_TTL = ARGV[2], ARGV[8], ARGV[9]
-- include next_number.lua
-- Never shortened: this may be a late copy, and the lock may have been extended since.
if remaining < tonumber(TTL) then
  redis.call('SET', KEYS[1], ARGV[1], 'PX', TTL)
end
-- include granted.lua
if FENCE then
  -- include fence.lua
end
return {1, number}
