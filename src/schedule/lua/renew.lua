-- Renews leases.
-- ARGV: buckets; lease (ms); packed leases: number, fence
-- Reply: {'OK', one each: 0 lost, 1 renewed, 2 renewed, and its cancellation was asked for}, {'NONE'} or {'NEED', …}
if not head[1] then return {'NONE'} end
local reply, until_ = {'OK'}, int(now + tonumber(ARGV[2]))
for n = 1, #ARGV[3], 13 do bucket((struct.unpack('>I6', ARGV[3], n))) end
if needs > 0 then return wanting() end
for n = 1, #ARGV[3], 13 do
  local member = string.sub(ARGV[3], n, n + 12)
  if redis.call('ZSCORE', LSE, member) then
    redis.call('ZADD', LSE, 'GT', until_, member)
    local j = load((struct.unpack('>I6', member)))
    reply[#reply + 1] = j and flag(j, CANCEL) and 2 or 1
  else
    reply[#reply + 1] = 0
  end
end
return reply
