-- Ends a conversation. A trace stays, also of one that was idle, so that the same call sent again does not end the next one.
-- KEYS: conversation
-- ARGV: request (7 bytes)
-- Reply: OK existed replayed
local c = load()
local now = clock(c)
local before = done_before(c, ARGV[1])
if before ~= '' then return {'OK', before == 'R' and '1' or '0', '1'} end
local existed = status(c, now) == 'STATE'
bury(c, ARGV[1], existed and 'R' or 'r', now)
return {'OK', existed and '1' or '0', '0'}
