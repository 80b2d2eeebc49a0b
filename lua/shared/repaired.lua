-- The end of an extend script that has set what was gone: the reply is 3 if nobody can have had it meanwhile, else 2.
--
-- Needs MARK, the key of the node's mark; and QUARANTINE, 1 if newcomers are granted nothing but under an admitted mark.

if QUARANTINE == '1' then
  -- pcall: something else under the mark's key says nothing.
  local mark = redis.pcall('GET', MARK)
  -- None: it was forgotten a moment ago, or nobody has looked at the node since.
  if not mark or type(mark) == 'string' and string.find(mark, ' quarantined until_ms=', 1, true) then
    return 3
  end
end
return 2
