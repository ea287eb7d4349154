-- Gives a claim in progress more time.
-- KEYS: claim
-- ARGV: request (7 bytes), fence, time from now (ms)
-- Reply: EXTENDED until | LEASE_LOST
local c = load()
if not c or int(c.fence) ~= ARGV[2] or c.state ~= 'P' then return {'LEASE_LOST'} end
if found(c.marks, ARGV[1]) == 'E' then return {'EXTENDED', int(c.till)} end
local us = clock(c)
local now = math.floor(us / 1000)
c.till = in_progress_till(us, ARGV[3])
-- A worker that keeps extending leaves one mark.
remember(c.marks, ARGV[1], 'E', 'E')
save(c, now)
return {'EXTENDED', int(c.till)}
