-- Part of an acquire script that grants: the caller needs its reservation no longer.
if without == '' then
  redis.call('DEL', RESERVED)
elseif without then
  redis.call('SET', RESERVED, without, 'KEEPTTL')
end
