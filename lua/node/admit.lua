-- Reads the node's mark and clock. Replaces the mark if it is still as the caller saw it.
--
-- KEYS[1]  the mark
-- ARGV[1]  the mark to replace; empty if there was none
-- ARGV[2]  the new mark; empty for no change
--
-- Replies:
--   {changed, seconds, microseconds, mark, refuses}
--     changed        1 if this call has set the new mark, else 0
--     seconds, microseconds   the time that TIME returns
--     mark           {value}, as it is now, or {} if there is none; {type} for a value that is not a string
--     refuses        1 if the server refuses INFO in scripts, else 0. Such a server may be behind a proxy, which keeps connections
--                    open when another server takes over.
--
-- It is one step: nobody can change the mark between the comparison and the change. Running it again changes nothing, since the
-- mark is then another one. It does not read which server it runs on, since some servers refuse INFO in scripts. A mark names its
-- server, and clients compare that with an INFO that they send behind this script.

local changed = 0
local mark = redis.pcall('GET', KEYS[1])
if type(mark) == 'table' then
  if not string.find(mark.err, 'WRONGTYPE', 1, true) then
    return mark -- a permission is missing
  end
  mark = redis.call('TYPE', KEYS[1]).ok
elseif ARGV[2] ~= '' and mark == (ARGV[1] ~= '' and ARGV[1]) then
  -- A server that is out of memory sets nothing, unless the script has deleted something before. If it sets nothing even
  -- then, a missing mark has the effect of a quarantine.
  local deleted = redis.pcall('DEL', KEYS[1])
  if type(deleted) == 'number' then
    redis.call('SET', KEYS[1], ARGV[2])
    mark = ARGV[2]
    changed = 1
  elseif not string.find(deleted.err, 'READONLY', 1, true) then
    return deleted
  end
end

local now = redis.call('TIME')
-- Our marks are far shorter, so a text that is cut off cannot become one.
local shown = mark and {string.sub(mark, 1, 512)} or {}
-- An unknown section costs next to nothing.
local refuses = type(redis.pcall('INFO', 'nothing')) == 'table' and 1 or 0
return {changed, now[1], now[2], shown, refuses}
