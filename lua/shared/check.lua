-- Part of an acquire script: checks whether another caller with a reservation of the name goes before this one.
--
-- Needs `reserved`, the value under the key of the reservations; CLASS, 'r' if the caller shares the lock with readers, else
-- 'x'; and WAITER, the caller's priority, or ''. Sets `blocked`, the time in milliseconds for which another caller goes
-- first; nil: none does. Sets `others`, the reservations of others that are in force, and `without`, the same as text if one
-- of the caller's is among them.

local blocked, without, others
if reserved then
  local time = redis.call('TIME')
  local now = time[1] * 1000 + math.floor(time[2] / 1000)
  local own = string.sub(WAITER, 1, 34)
  local is_first, is_there = true, false
  others = {}
  for entry, priority, ends, class in string.gmatch(reserved, '((%d+) (%d+)(%l))') do
    local left = ends - now
    if priority == own then
      is_there = true
    elseif left > 0 and left <= 10000 then -- nobody reserves for longer, so what is left of more is of another time
      if is_first and (own == '' or priority < own) and not (class == 'r' and CLASS == 'r') then
        blocked = left
      end
      is_first = false
      others[#others + 1] = entry
    end
  end
  without = is_there and table.concat(others)
end
