-- Makes a kept generation the current one; uploads in progress end.
-- KEYS: index, head of the session
-- ARGV: generation, the session's fence ('' = none)
-- Reply: OK | NONE (there is no blob) | GONE | HELD | FENCED why
local b = redis.call('HMGET', index, 'i', 'cur', 't')
local refusal = session(KEYS[2])
if not b[1] or b[1] == '0' then return {'NONE'} end
if b[2] == ARGV[1] then return {'OK'} end
local g, now = generation(ARGV[1]), clock(b[3])
if not g or g.state ~= 'K' then return {'GONE'} end
local refused = refusal(ARGV[2], now)
if refused then return refused end
end_uploads(generations())
redis.call('HSET', index, 'cur', ARGV[1], 't', int(now))
return {'OK'}
