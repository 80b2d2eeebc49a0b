-- Takes the reservations of a caller back on one node, and tells those who wait because of them.
--
-- KEYS[1]  who has reserved the name (one for each name)
-- ARGV[1]  the caller's priority
-- ARGV[2]  the channel on which releases of the lock are told (one for each name)
--
-- Replies:
--   1   the caller had a reservation, of one name at least
--   0   it had none

local reply = 0
for i = 1, #KEYS do
  -- pcall: what is something else under that key reserves nothing.
  local reserved = redis.pcall('GET', KEYS[i])
  if type(reserved) == 'table' then
    if not string.find(reserved.err, 'WRONGTYPE', 1, true) then
      return reserved -- a permission is missing
    end
    reserved = false
  end
  local others, at = {}, 0
  for entry, priority in string.gmatch(reserved or '', '((%d+) %d+%l)') do
    if priority == ARGV[1] then
      at = #others + 1
    else
      others[#others + 1] = entry
    end
  end
  if at > 0 then
    reply = 1
    if #others == 0 then
      redis.call('DEL', KEYS[i])
    else
      redis.call('SET', KEYS[i], table.concat(others), 'KEEPTTL')
    end
    if at == 1 then
      -- pcall: it is taken back, whether or not we may say so. Who waits looks now and then.
      redis.pcall('PUBLISH', ARGV[1 + i], ARGV[1])
    end
  end
end
return reply
