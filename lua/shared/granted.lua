-- Part of an acquire script that grants: the caller no longer needs its reservation.
if without == '' then
  redis.call('DEL', RESERVED)
elseif without then
  redis.call('SET', RESERVED, without, 'KEEPTTL')
end
