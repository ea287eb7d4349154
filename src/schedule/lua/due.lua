-- What is due.
-- Makes up to `most` due jobs ready.
local function promote(most)
  local found = redis.call('ZRANGEBYSCORE', DUE, '-inf', int(now), 'WITHSCORES', 'LIMIT', 0, most)
  if #found == 0 then return 0 end
  local gone, ready = {}, {}
  for n = 1, #found, 2 do
    local member, due = found[n], tonumber(found[n + 1])
    local priority, number = struct.unpack('>I2I6', member)
    gone[#gone + 1] = member
    local its_turn = true
    if #member > 8 then
      local j = {group = string.sub(member, 9), priority = priority, due = due}
      redis.call('ZADD', GRP, 0, group_member(number, j))
      its_turn = redis.call('HSETNX', GA, j.group, int(number)) == 1
    end
    if its_turn then
      ready[#ready + 1] = priority
      ready[#ready + 1] = struct.pack('>I6I6', due, number)
    end
  end
  redis.call('ZREM', DUE, unpack(gone))
  if #ready > 0 then
    before_ready()
    redis.call('ZADD', RDY, unpack(ready))
  end
  return #gone
end
