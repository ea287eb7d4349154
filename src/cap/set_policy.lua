-- Makes or changes a policy.
-- KEYS: policies
-- ARGV: name (8 bytes), request (7 bytes), algorithm, flags, limit, window, fingerprint of the definition (8 bytes), sealed, most
--       policies, from the configuration ('1': what was changed since by somebody stays)
-- Reply: OK created replayed packed | FULL
local raw, p, marks, config = redis.call('HGET', KEYS[1], ARGV[1]), nil, {}, ARGV[10] == '1'
local flags, limit, window = tonumber(ARGV[4]) + (config and 8 or 0), tonumber(ARGV[5]), tonumber(ARGV[6])
if raw then
  p = policy(raw)
  marks = marks_in(raw, p.at, p.marks)
  if found(marks, ARGV[2]) then return {'OK', '0', '1', raw} end
  if config and p.flags < 8 then return {'OK', '0', '0', raw} end
  if p.algorithm == ARGV[3] and p.flags == flags and p.limit == limit and p.window == window and p.fingerprint == ARGV[7] then
    return {'OK', '0', '0', raw}
  end
elseif redis.call('HLEN', KEYS[1]) >= tonumber(ARGV[9]) then
  return {'FULL'}
end
local now_us = server_us()
local revision = math.max(now_us, p and p.revision + 1 or 0)
-- A new limit goes on with what was counted; anything else begins anew.
local same = p and p.algorithm == ARGV[3] and p.fingerprint == ARGV[7] and p.window == window
remember(marks, ARGV[2], 'S')
local packed = struct.pack(POLICY, ARGV[3], flags, revision, same and p.definition or revision, limit, window,
  math.floor(now_us / 1000), ARGV[7], #marks) .. table.concat(marks) .. ARGV[8]
redis.call('HSET', KEYS[1], ARGV[1], packed)
return {'OK', p and '0' or '1', '0', packed}
