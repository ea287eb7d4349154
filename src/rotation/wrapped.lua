#!lua flags=no-writes
-- The wrapped root keys of an owner and of its archives, in one look: an archive that comes back meanwhile is not missed.
-- KEYS: the owner's hash (head of a session, index of a blob, key of a namespace)
-- Reply: sealed name (nil = there is no such owner), live wrapped key or nil, archived wrapped key …
local h = redis.call('HMGET', KEYS[1], 'nm', 'k', 'al')
local reply = {h[1], h[2]}
for incarnation in string.gmatch(h[3] or '', '[^,]+') do
  reply[#reply + 1] = redis.call('HGET', KEYS[1], 'a:' .. incarnation .. ':k')
end
return reply
