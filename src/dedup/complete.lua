-- Ends a claim; the key is a duplicate from now on.
-- KEYS: claim
-- ARGV: request (7 bytes), fence, retention (ms; '' = the claim's), sealed result ('' = none)
-- Reply: COMPLETED until | LEASE_LOST
local c = load()
if c and int(c.fence) == ARGV[2] then
  local now = math.floor(clock(c) / 1000)
  if c.state == 'D' then return {'COMPLETED', int(c.till)} end
  if c.state == 'R' then return {'LEASE_LOST'} end
  if ARGV[3] ~= '' then c.retention = tonumber(ARGV[3]) end
  c.state, c.till, c.result = 'D', now + c.retention, ARGV[4]
  remember(c.marks, ARGV[1], 'C')
  save(c, now)
  return {'COMPLETED', int(c.till)}
end
-- It was, and has been forgotten and claimed anew since.
if found(c and c.marks, ARGV[1]) == 'C' then return {'COMPLETED', '0'} end
return {'LEASE_LOST'}
