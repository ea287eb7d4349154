-- A page of the jobs of one state: who is there. What is known of them is read afterwards, from their buckets.
-- ARGV: buckets; state as JobState; score and member behind which to go on, or ''; most
-- Reply: {'OK', now, then per job: score, member} or {'NONE'}. Finds its place by the order of the list, not by a position in it, so
-- that nothing is left out when something before it goes
if not head[1] then return {'NONE'} end
local state, most = tonumber(ARGV[2]), tonumber(ARGV[5])
local reply = {'OK', int(now)}
if state == 3 then
  local members = redis.call('ZRANGEBYLEX', GRP, ARGV[4] == '' and '-' or '(' .. ARGV[4], '+', 'LIMIT', 0, most)
  for _, member in ipairs(members) do
    local number = struct.unpack('>I6', member, #member - 13)
    local turn = redis.call('HGET', GA, string.sub(member, 1, #member - 14)) == int(number)
    reply[#reply + 1] = turn and '1' or '0'
    reply[#reply + 1] = member
  end
  return reply
end
local zset = state == 1 and DUE or state == 2 and RDY or state == 4 and LSE or state == 6 and DEAD or DONE
local newest_first = state >= 5
local range = newest_first and 'ZREVRANGE' or 'ZRANGE'
local from = ARGV[4] ~= '' and seek(zset, newest_first, tonumber(ARGV[3]), ARGV[4]) or 0
local found = redis.call(range, zset, from, from + most - 1, 'WITHSCORES')
for n = 1, #found, 2 do
  reply[#reply + 1] = int(tonumber(found[n + 1]))
  reply[#reply + 1] = found[n]
end
return reply
