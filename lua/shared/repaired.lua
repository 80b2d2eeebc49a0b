-- The end of an extend script that has set a missing key: the reply is 3 if nobody can have had the lock meanwhile, else 2.
--
-- Needs MARK, the key of the node's mark; and QUARANTINE, 1 if newcomers are granted locks only under an admitted mark.

if QUARANTINE == '1' then
  -- pcall: something else under the mark's key says nothing.
  local mark = redis.pcall('GET', MARK)
  -- No mark: it was forgotten a moment ago, or no client has probed the node since.
  if not mark or type(mark) == 'string' and string.find(mark, ' quarantined until_ms=', 1, true) then
    return 3
  end
end
return 2
