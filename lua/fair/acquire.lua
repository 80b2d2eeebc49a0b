-- Takes a fair lock on one node, if it is free and the caller is first in the queue. Otherwise reports the obstacle, and
-- notes the caller's place in the queue.
--
-- Replies (the shape that every acquire script has):
--   {1, number}      granted; number is this node's number of the grant, 0 without fencing
--   {0, ms, ticket}  refused: another owner's key is there, or another caller goes first, for ms more milliseconds (-1: without
--                    expiry). A caller with a ticket waits in the queue; for one without, ticket is the largest there
--   {0, ms}          the same, and the queue is full, so that the caller is not in it
--   {-1, 0}          not admitted: the mark is another one, so the node may have forgotten locks
--   {-2, type}       the name belongs to something that is not a lock, of that type; or a key of the queue is not a queue
--   {-3, 0}          the fence is the largest number that there is
--   {-3, 1}          the fence is not a number
--
-- Running it again for the same owner grants again, with the same number, and leaves the caller at its place in the queue: a
-- retry after a lost reply changes nothing.

local redis, KEYS, ARGV = redis, KEYS, ARGV -- a local is found faster than a global
local LOCK, MARK, RESERVED, QUEUE, QUEUE_ENDS, FENCE = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local OWNER, TTL, ADMITTED, QUEUED, TICKET, STAYS_FOR, PROPOSAL, FENCE_TTL, WAITER
  = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6], ARGV[7], ARGV[8], ARGV[9] or ''

local LARGEST = 2251799813685247 -- 2^51 - 1; lua/README.md says why
local MOST = 1000 -- callers in the queue
local LONGEST = 60000 -- milliseconds: no caller asks for more. An end that is farther away was set by an earlier clock

local CLASS = 'x'
-- include read.lua
-- include check.lua

local first = redis.pcall('ZRANGE', QUEUE, 0, 0)
if first.err then
  if not string.find(first.err, 'WRONGTYPE', 1, true) then
    return first -- a permission is missing
  end
  return {-2, redis.call('TYPE', QUEUE).ok}
end
first = first[1]
local waits, is_in_queue = TICKET ~= '0' and STAYS_FOR ~= '0', true
local ahead_ms = 0 -- how long the first one may still wait
if first or waits then
  local ends = redis.pcall('ZCARD', QUEUE_ENDS)
  if type(ends) == 'table' then
    if not string.find(ends.err, 'WRONGTYPE', 1, true) then
      return ends -- a permission is missing
    end
    return {-2, redis.call('TYPE', QUEUE_ENDS).ok}
  end
  local time = redis.call('TIME')
  local now = time[1] * 1000 + math.floor(time[2] / 1000)
  if waits then
    if not redis.call('ZSCORE', QUEUE, QUEUED) and redis.call('ZCARD', QUEUE) >= MOST then
      for _ = 1, MOST do
        local next_over = redis.call('ZRANGE', QUEUE_ENDS, 0, 0)[1]
        if not next_over or redis.call('ZSCORE', QUEUE_ENDS, next_over) - now > 0 then
          break
        end
        redis.call('ZREM', QUEUE, next_over)
        redis.call('ZREM', QUEUE_ENDS, next_over)
      end
      is_in_queue = redis.call('ZCARD', QUEUE) < MOST
    end
    if is_in_queue then
      -- Its end first, and the place last: if a command fails in between, nobody stays in the queue for ever.
      redis.call('ZADD', QUEUE_ENDS, now + STAYS_FOR, QUEUED)
      if redis.call('PTTL', QUEUE_ENDS) < tonumber(STAYS_FOR) then
        redis.call('PEXPIRE', QUEUE_ENDS, STAYS_FOR)
      end
      redis.call('ZADD', QUEUE, TICKET, QUEUED)
      if redis.call('PTTL', QUEUE) < tonumber(STAYS_FOR) then
        redis.call('PEXPIRE', QUEUE, STAYS_FOR)
      end
    end
  end
  -- Callers that no longer wait block nobody at the head of the queue. In its middle they are not searched for.
  for _ = 1, MOST + 1 do
    first = redis.call('ZRANGE', QUEUE, 0, 0)[1]
    ahead_ms = first and (redis.call('ZSCORE', QUEUE_ENDS, first) or 0) - now or 0
    if not first or ahead_ms > 0 and ahead_ms <= LONGEST then
      break
    end
    redis.call('ZREM', QUEUE, first)
    redis.call('ZREM', QUEUE_ENDS, first)
  end
end

local kind = redis.call('TYPE', LOCK).ok
local remaining, ours = 0, false
if kind ~= 'none' then
  remaining = redis.call('PTTL', LOCK)
  if kind ~= 'string' and (kind ~= 'hash' or remaining < 0) then
    -- Locks are strings, or hashes that expire.
    return {-2, kind}
  end
  ours = kind == 'string' and redis.call('GET', LOCK) == OWNER
end
local is_behind = first and first ~= QUEUED
local in_the_way = kind ~= 'none' and remaining or is_behind and ahead_ms or blocked
if in_the_way and not ours then
  if not is_behind then
    -- Otherwise the caller behind could be ahead by its reservation, and the first one by the queue.
    local is_shared = kind == 'hash'
    -- include reserve.lua
  end
  if not is_in_queue then
    return {0, in_the_way}
  elseif waits then
    return {0, in_the_way, tonumber(TICKET)}
  end
  return {0, in_the_way, tonumber(redis.call('ZRANGE', QUEUE, -1, -1, 'WITHSCORES')[2] or 0)}
end

-- include next_number.lua
-- Never shortened: this may be a late copy, and the lock may have been extended since.
if remaining < tonumber(TTL) then
  redis.call('SET', LOCK, OWNER, 'PX', TTL)
end
-- include granted.lua
if FENCE then
  -- include fence.lua
end
return {1, number}
