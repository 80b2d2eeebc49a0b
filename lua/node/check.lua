-- Compares a node with the last probe of it, and reads its clock. It costs a server less than half of a probe.
--
-- KEYS[1]  the mark
-- ARGV[1]  the mark that was seen; empty if there was none
-- ARGV[2]  the replication id that was seen, of a master
--
-- Replies:
--   {seconds, microseconds}   nothing has changed; the time that TIME returns
--   {}                        something has changed; a probe shows what
--
-- The run id is not compared: each run of a master has a replication id of its own. Clients rely on that to distinguish
-- servers (`src/core/admission/servers.rs`).

local mark = redis.pcall('GET', KEYS[1])
if type(mark) == 'table' then
  if not string.find(mark.err, 'WRONGTYPE', 1, true) then
    return mark -- a permission is missing
  end
  return {}
end
if mark ~= (ARGV[1] ~= '' and ARGV[1]) then
  return {}
end
local replication = redis.call('INFO', 'replication')
if string.match(replication, '\nrole:(%a+)') ~= 'master' then
  return {}
end
if string.match(replication, '\nmaster_replid:(%w+)') ~= ARGV[2] then
  return {}
end
return redis.call('TIME')
