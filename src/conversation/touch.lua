-- Lets the time to live begin anew.
-- KEYS: conversation
-- ARGV: request (7 bytes), ttl (ms)
-- Reply: IDLE | STATE | CEILING | DONE, done before, version, started, updated, expires, ceiling, sealed
local c = load()
local now = clock(c)
local before = done_before(c, ARGV[1])
if before ~= '' then return {'DONE', before, told(c, now)} end
local stands = status(c, now)
if stands == 'STATE' then
  c.expires = now + tonumber(ARGV[2])
  remember(c.marks, ARGV[1], 'T', 'T')
  save(c, now)
end
return {stands, '', told(c, now)}
