#!lua flags=allow-oom
-- Puts a root key that was wrapped anew in the place of the same one, wherever in its owner it stands by now: since it was read a
-- session may have become an archive, or have come back.
-- KEYS: the owner's hash (head of a session, index of a blob, key of a namespace)
-- ARGV: as it was read, wrapped anew
-- Reply: 1 replaced, 0 it is not there any more
local fields = {'k'}
for incarnation in string.gmatch(redis.call('HGET', KEYS[1], 'al') or '', '[^,]+') do
  fields[#fields + 1] = 'a:' .. incarnation .. ':k'
end
for _, field in ipairs(fields) do
  if redis.call('HGET', KEYS[1], field) == ARGV[1] then
    redis.call('HSET', KEYS[1], field, ARGV[2])
    return 1
  end
end
return 0
