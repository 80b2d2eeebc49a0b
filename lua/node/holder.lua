-- Reports the owners of a lock on one node, whatever its kind.
--
-- KEYS[1]  the lock
-- KEYS[2]  the node's mark
-- KEYS[3]  the queue of a fair lock
-- KEYS[4]  the lock's fence, which keeps the largest number of a grant (not given without fencing)
-- ARGV[1]  the beginning of the keys of the strings that live for as long as a read: 'PREFIX:OWNER:rwlock_timeout:N'
--
-- Replies:
--   {type, ms, number, forgetful, {owner, ..}, held_as, waiting}
--     type        the type of the lock's key: 'none', 'string', 'hash', 'long' for a value too long for an owner, or
--                 any other type
--     ms          the time in milliseconds for which the key lives without a renewal (-1: without expiry; 0 if there is none)
--     number      the fence, 0 if there is none
--     forgetful   1 if the node has no mark, or is in quarantine: it may have forgotten locks; else 0
--     owner       the owners that have the lock here, in hexadecimal digits: at most a hundred of them, and none of a hash
--                 without expiry, which is not a lock
--     held_as     'exclusive', 'reentrant', 'read', 'write', or 'semaphore N' with N permits; empty without an owner
--     waiting     number of callers in the queue, including dead ones for some seconds; 0 if that may not be read
--
-- It changes nothing. Owners may be any bytes, since other clients also make some.

local MOST = 100 -- owners
local LONGEST = 512 -- bytes of an owner
local COUNTS = 10 -- counts of a thread of Redisson's that are looked at

local function hex(character)
  return string.format('%02x', string.byte(character))
end

-- pcall: another type of value under the mark's key is another client's, and shows nothing.
local mark = redis.pcall('GET', KEYS[2])
if type(mark) == 'table' and not string.find(mark.err, 'WRONGTYPE', 1, true) then
  return mark -- a permission is missing
end
local is_settled = type(mark) == 'string' and not string.find(mark, ' quarantined until_ms=', 1, true)

local number = 0
if KEYS[4] then
  local fence = redis.pcall('GET', KEYS[4])
  if type(fence) == 'table' and not string.find(fence.err, 'WRONGTYPE', 1, true) then
    return fence -- a permission is missing
  end
  fence = type(fence) == 'string' and tonumber(fence) or 0
  -- A number that no lock can have counts as none.
  number = fence >= 0 and fence <= 2251799813685247 and fence or 0
end

local kind = redis.call('TYPE', KEYS[1]).ok
local ms = kind ~= 'none' and redis.call('PTTL', KEYS[1]) or 0
local found = {}
if kind == 'string' then
  found = {redis.call('GET', KEYS[1])}
elseif kind == 'hash' and ms >= 0 then
  -- A hash without an end is not a lock, but other data, and perhaps much of it.
  local fields = redis.call('HGETALL', KEYS[1])
  for i = 1, #fields, 2 do
    found[#found + 1] = fields[i]
    found[fields[i]] = fields[i + 1]
  end
end
-- A read-write lock keeps its mode next to its owners. A hold to read is over when its strings are gone. A semaphore keeps
-- its number of permits, and with each owner the end of its hold, by this node's clock.
local beside = kind == 'hash' and (found.mode and 'mode' or found.permits and 'permits')
local time = beside == 'permits' and redis.call('TIME')
local now = time and time[1] * 1000 + math.floor(time[2] / 1000)
local function is_over(owner)
  if beside == 'permits' then
    local ends = tonumber(string.match(found[owner], '^(%d+) ') or 0)
    return ends < now
  elseif string.sub(owner, -6) == ':write' then
    return false
  end
  for n = 1, COUNTS do
    -- The key name is put together as Redisson does it: only the node knows the owners of the holds.
    if redis.call('PTTL', table.concat({ARGV[1], owner, 'rwlock_timeout', n}, ':')) ~= -2 then
      return false
    end
  end
  return true
end
local owners = {}
for _, owner in ipairs(found) do
  if #owner > LONGEST then
    kind = 'long'
    owners = {}
    break
  end
  if #owners < MOST and not (beside and (owner == beside or is_over(owner))) then
    owners[#owners + 1] = string.gsub(owner, '.', hex)
  end
end
if beside and #owners == 0 then
  kind, ms = 'none', 0
end
table.sort(owners) -- the fields of a hash have no order
local held_as = ''
if #owners > 0 then
  if kind == 'string' then
    held_as = 'exclusive'
  elseif not beside then
    held_as = 'reentrant'
  elseif beside == 'mode' then
    held_as = found.mode == 'write' and 'write' or 'read'
  elseif string.find(found.permits, '^%d%d?%d?%d?$') then
    held_as = table.concat({'semaphore', found.permits}, ' ')
  end
end
-- pcall: another type of value under the queue's key is not a queue, and operators may lack the permission.
local waiting = redis.pcall('ZCARD', KEYS[3])
waiting = type(waiting) == 'number' and waiting or 0
return {kind, ms, number, is_settled and 0 or 1, owners, held_as, waiting}
