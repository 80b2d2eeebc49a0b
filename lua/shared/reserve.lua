-- Part of an acquire script that refuses: the caller reserves the name, if it wants to.
--
-- Needs RESERVED, CLASS, WAITER and the values that shared/read.lua and shared/check.lua have set. A caller that reserves
-- has a WAITER of `PRIORITY MS`. With `PRIORITY MS s` it reserves only if `is_shared` is true: the lock is held by a kind
-- that may have several holders. Sets `is_new`, true if the caller now has a reservation that it did not have.

local is_new = false
if #WAITER > 34 and (is_shared or string.sub(WAITER, -1) ~= 's') then
  local time = redis.call('TIME')
  local own, lasts = string.sub(WAITER, 1, 34), tonumber(string.match(WAITER, '%d+', 36))
  local ends = time[1] * 1000 + math.floor(time[2] / 1000) + lasts
  local all, place = others or {}, 1
  while all[place] and string.sub(all[place], 1, 34) < own do
    place = place + 1
  end
  -- Readers share the lock, so a reader right behind another reader needs no entry.
  local is_redundant = CLASS == 'r' and place > 1 and string.sub(all[place - 1], -1) == 'r'
  if place <= 8 and not is_redundant then
    is_new = not without
    table.insert(all, place, string.format('%s %015.0f%s', own, ends, CLASS))
    all[9] = nil -- the youngest one comes again
    local text, ms = table.concat(all), math.max(lasts, redis.call('PTTL', RESERVED))
    -- pcall: a server that is out of memory refuses nevertheless. A key of another type stays.
    if reserved then
      redis.pcall('SET', RESERVED, text, 'PX', ms)
    else
      redis.pcall('SET', RESERVED, text, 'PX', ms, 'NX')
    end
  end
end
