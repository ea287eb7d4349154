-- Takes away the index of a blob of which nothing is left.
-- KEYS: index, manifests
-- Reply: OK | KEPT
local b = redis.call('HMGET', index, 'al', 'e')
redis.call('EXISTS', KEYS[2])
if #generations() > 0 or (b[1] and b[1] ~= '') or b[2] then return {'KEPT'} end
redis.call('DEL', index, KEYS[2])
return {'OK'}
