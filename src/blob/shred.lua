-- Deletes for good: one incarnation, live or archived, or all there is. Without its key and manifests nothing of it can be read;
-- the parts are collected next.
-- KEYS: index, manifests, head of the session
-- ARGV: incarnation ('' = all), the session's fence ('' = none)
-- Reply: OK | NONE | HELD | FENCED why
local b = redis.call('HMGET', index, 'i', 'al', 't')
redis.call('EXISTS', KEYS[2])
local refusal = session(KEYS[3])
if not b[1] then return {'NONE'} end
local all, list, now, found = generations(), archives(b[2]), clock(b[3]), false
local refused = refusal(ARGV[2], now)
if refused then return refused end
local live = b[1] ~= '0' and b[1] == ARGV[1]
for _, g in ipairs(all) do
  local ours = ARGV[1] == '' or int(g.incarnation) == ARGV[1] or (live and g.state == 'U')
  if ours and g.state ~= 'X' then
    found = found or g.state ~= 'U'
    redis.call('HDEL', KEYS[2], g.id)
    change(g, 'X', 0)
  end
end
if ARGV[1] == '' then
  for _, incarnation in ipairs(list) do redis.call('HDEL', index, 'a:' .. incarnation) end
  redis.call('HDEL', index, 'k', 'al', 'e', 'et')
  redis.call('HSET', index, 'i', '0', 'cur', '0', 't', int(now))
else
  if live then redis.call('HSET', index, 'i', '0', 'cur', '0') end
  drop_archive(ARGV[1], all, list, 'X', 0)
  redis.call('HSET', index, 'al', table.concat(list, ','), 't', int(now))
end
return {found and 'OK' or 'NONE'}
