-- Withdraws the reservations of a caller on one node, and tells the callers that wait because of them.
--
-- KEYS[1]  the reservations of the name (one for each name)
-- ARGV[1]  the caller's priority
-- ARGV[2]  the channel on which releases of the lock are announced (one for each name)
--
-- Replies:
--   1   the caller had a reservation of at least one name
--   0   it had none

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local reply = 0
for i = 1, #KEYS do
  -- pcall: a value of another type under that key reserves nothing.
  local reserved = redis.pcall('GET', KEYS[i])
  if type(reserved) == 'table' then
    if not string.find(reserved.err, 'WRONGTYPE', 1, true) then
      return reserved -- a permission is missing
    end
    reserved = false
  end
  local others, is_there, is_first, goes_first = {}, false, true, false
  for entry, priority, ends in string.gmatch(reserved or '', '((%d+) (%d+)%l)') do
    if priority == ARGV[1] then
      is_there, goes_first = true, is_first
    else
      others[#others + 1] = entry
      -- An expired reservation keeps nobody waiting.
      is_first = is_first and ends - now <= 0
    end
  end
  if is_there then
    reply = 1
    if #others == 0 then
      redis.call('DEL', KEYS[i])
    else
      redis.call('SET', KEYS[i], table.concat(others), 'KEEPTTL')
    end
    if goes_first then
      -- pcall: it is withdrawn even if publishing is not permitted. Waiters poll now and then.
      redis.pcall('PUBLISH', ARGV[1 + i], ARGV[1])
    end
  end
end
return reply
