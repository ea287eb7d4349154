-- What a send is, and which counters it is in: for confirm and refund, which must name their keys.
-- KEYS: send
-- ARGV: request (7 bytes)
-- Reply: NONE | R, C, F or LAPSED, done before ('' = nothing), then for each policy: algorithm, counter
local s = load_send(redis.call('GET', KEYS[1]))
local now = server_ms()
if not s or (s.state ~= 'R' and s.till <= now) then return {'NONE'} end
local reply = {s.state == 'R' and s.till <= now and 'LAPSED' or s.state, found(s.marks, ARGV[1]) or ''}
for _, p in ipairs(s.parts) do
  reply[#reply + 1], reply[#reply + 2] = p.algorithm, p.counter
end
return reply
