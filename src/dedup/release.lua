-- Gives a claim back. A trace of it stays for a while, so that the same call sent again does not release a later claim.
-- KEYS: claim
-- ARGV: request (7 bytes), fence, how long the trace stays (ms)
-- Reply: RELEASED | LEASE_LOST
local c = load()
if found(c and c.marks, ARGV[1]) == 'R' then return {'RELEASED'} end
if not c or int(c.fence) ~= ARGV[2] or c.state == 'D' then return {'LEASE_LOST'} end
if c.state == 'P' then
  local now = math.floor(clock(c) / 1000)
  c.state, c.till, c.result, c.fingerprint = 'R', now + tonumber(ARGV[3]), '', ''
  remember(c.marks, ARGV[1], 'R')
  save(c, now)
end
return {'RELEASED'}
