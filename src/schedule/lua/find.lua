-- One job by its id.
-- ARGV: buckets; blinded id
-- Reply: {'OK', now, number, place, header, lease end, most attempts, payload, result, error, progress}, {'GONE', state, due, finished}
--   (its id is still taken), {'ABSENT'}, {'NONE'} or {'NEED', …}
if not head[1] then return {'NONE'} end
local number, left = find(ARGV[2])
if left then
  local due, finished, state = struct.unpack('>I6I6B', left, 2)
  return {'GONE', int(state), int(due), int(finished)}
end
if not number then return {'ABSENT'} end
if not bucket(number) then return wanting() end
local at = field(number)
local values = redis.call('HMGET', bucket(number), at, 'p' .. at, 'r' .. at, 'e' .. at, 'g' .. at)
if not values[1] then return {'ABSENT'} end
local reply = {'OK', int(now), row(number, parse(values[1]), values[1])}
for n = 2, 5 do reply[#reply + 1] = values[n] or '' end
return reply
