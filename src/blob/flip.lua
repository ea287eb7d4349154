-- Makes an upload the current generation: the one instant at which a save becomes visible.
-- KEYS: index, manifests, head of the session
-- ARGV: generation, request, the session's fence ('' = none), parts, bytes stored, size, digest, sealed manifest, most kept,
--       most bytes of those beside the current, time for readers (ms)
-- Reply: OK incarnation saved_at | UNCHANGED generation (the upload is still to be given up) | HELD | FENCED why | GONE | LATE (a newer save is there) | LOST (parts are not there)
local b = redis.call('HMGET', index, 'i', 'cur', 'm', 't')
redis.call('EXISTS', KEYS[2])
local refusal = session(KEYS[3])
local all, now, g = generations(), clock(b[4]), nil
for _, one in ipairs(all) do
  if one.id == ARGV[1] then g = one end
end
if not g or g.request ~= ARGV[2] then return {'GONE'} end
-- Sent again after a lost answer.
if g.state == 'K' then return {'OK', int(g.incarnation), int(g.saved)} end
if g.state ~= 'U' or g.at < now then return {'GONE'} end
local refused = refusal(ARGV[3], now)
if refused then return refused end
if tonumber(b[3] or 0) > tonumber(g.id) then return {'LATE'} end
if g.parts ~= tonumber(ARGV[4]) or g.stored ~= tonumber(ARGV[5]) then return {'LOST'} end
for _, one in ipairs(all) do
  if one.id == b[2] and one.digest == ARGV[7] then return {'UNCHANGED', one.id} end
end

local incarnation = b[1]
if incarnation == '0' then incarnation = g.id end
redis.call('HSET', KEYS[2], g.id, ARGV[8])
g.incarnation, g.size, g.saved, g.digest = tonumber(incarnation), tonumber(ARGV[6]), now, ARGV[7]
change(g, 'K', 0)
local kept, bytes, full = 1, 0, false
for n = #all, 1, -1 do
  local one = all[n]
  if one.state == 'K' and one.id ~= g.id then
    kept, bytes = kept + 1, bytes + one.stored
    full = full or kept > tonumber(ARGV[9]) or bytes > tonumber(ARGV[10])
    if full then change(one, 'D', now + tonumber(ARGV[11])) end
  end
end
redis.call('HSET', index, 'i', incarnation, 'cur', g.id, 'm', g.id, 't', int(now))
return {'OK', incarnation, int(now)}
