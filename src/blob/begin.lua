-- Begins an upload under a new generation. An earlier try of the same request that is still going on ends, and of too many
-- uploads the one that has been idle longest: a sidecar that died leaves some behind.
-- KEYS: index, head of the session
-- ARGV: request, digest ('' = none), the session's fence ('' = none), time for a part (ms), wrapped key, sealed name, most uploads,
--       most generations
-- Reply: OK generation wrapped_key | REPLAYED generation | UNCHANGED generation | HELD | FENCED why | FULL
local b = redis.call('HMGET', index, 'n', 'cur', 't')
local refusal = session(KEYS[2])
local all, now = generations(), clock(b[3])
for _, g in ipairs(all) do
  if g.request == ARGV[1] and (g.state == 'K' or g.state == 'A' or g.state == 'D') then return {'REPLAYED', g.id} end
end
local refused = refusal(ARGV[3], now)
if refused then return refused end
for _, g in ipairs(all) do
  if g.id == b[2] and ARGV[2] ~= '' and g.digest == ARGV[2] then return {'UNCHANGED', g.id} end
end
if #all >= tonumber(ARGV[8]) then return {'FULL'} end
local uploads = {}
for _, g in ipairs(all) do
  if g.state == 'U' then
    if g.request == ARGV[1] or g.at < now then change(g, 'X', 0) else uploads[#uploads + 1] = g end
  end
end
table.sort(uploads, function(a, b) return a.at < b.at end)
for n = 1, #uploads - tonumber(ARGV[7]) + 1 do change(uploads[n], 'X', 0) end
redis.call('HSETNX', index, 'k', ARGV[5])
redis.call('HSETNX', index, 'nm', ARGV[6])
redis.call('HSETNX', index, 'i', '0')
redis.call('HSETNX', index, 'cur', '0')
local id = int(math.max(tonumber(b[1] or 0) + 1, now * 1000))
put({id = id, state = 'U', incarnation = 0, at = now + tonumber(ARGV[4]), parts = 0, stored = 0, size = 0, saved = 0,
  request = ARGV[1], digest = NONE})
redis.call('HSET', index, 'v', '1', 'n', id, 't', int(now))
return {'OK', id, redis.call('HGET', index, 'k')}
