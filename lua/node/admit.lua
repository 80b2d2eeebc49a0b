-- Reports the node's role, identity, clock and mark. Replaces the mark if the role, the ids and the mark are still as the caller
-- saw them.
--
-- KEYS[1]  the mark
-- ARGV[1]  the mark to replace; empty if there was none
-- ARGV[2]  the new mark; empty for no change
-- ARGV[3]  the run id that was seen
-- ARGV[4]  the replication id that was seen
--
-- Replies:
--   {changed, role, run, repl, repl2, seconds, microseconds, mark}
--     changed        1 if this call has set the new mark, else 0
--     role           'master', 'slave', or 'cluster'
--     run            the server's run id
--     repl, repl2    its replication id, and the one before its last promotion
--     seconds, microseconds   the time that TIME returns
--     mark           {value}, as it is now, or {} if there is none; {type} for a value that is not a string
--
-- All of it is one step: nobody can restart, flush or promote the server, or change the mark, between the probe and the
-- change. Running it again changes nothing, since the mark is then another one.

local server = redis.call('INFO', 'server')
local replication = redis.call('INFO', 'replication')
local role = string.match(replication, '\nrole:(%a+)') or ''
local run = string.match(server, '\nrun_id:(%w+)') or ''
local repl = string.match(replication, '\nmaster_replid:(%w+)') or ''
local repl2 = string.match(replication, '\nmaster_replid2:(%w+)') or ''
if string.find(redis.call('INFO', 'cluster'), '\ncluster_enabled:1', 1, true) then
  role = 'cluster'
end

local changed = 0
local mark = redis.pcall('GET', KEYS[1])
if type(mark) == 'table' then
  if not string.find(mark.err, 'WRONGTYPE', 1, true) then
    return mark -- a permission is missing
  end
  mark = redis.call('TYPE', KEYS[1]).ok
elseif ARGV[2] ~= '' and mark == (ARGV[1] ~= '' and ARGV[1])
  and role == 'master' and run == ARGV[3] and repl == ARGV[4] then
  -- A server that is out of memory sets nothing, unless the script has deleted something before. If it sets nothing even
  -- then, a missing mark has the effect of a quarantine.
  redis.call('DEL', KEYS[1])
  redis.call('SET', KEYS[1], ARGV[2])
  mark = ARGV[2]
  changed = 1
end

local now = redis.call('TIME')
-- Our marks are far shorter, so a text that is cut off cannot become one.
local shown = mark and {string.sub(mark, 1, 512)} or {}
return {changed, role, run, repl, repl2, now[1], now[2], shown}
