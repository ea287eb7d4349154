-- Reads a conversation, and what a request has done to it before.
-- KEYS: conversation
-- ARGV: request (7 bytes; '' = none)
-- Reply: IDLE | STATE | CEILING, done before ('' = nothing), version, started, updated, expires, ceiling, sealed
local c = load()
local now = clock(c)
return {status(c, now), ARGV[1] == '' and '' or done_before(c, ARGV[1]), told(c, now)}
