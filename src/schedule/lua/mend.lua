-- Looks at the headers of one bucket for jobs that are in no list, which cannot come about: they would be stuck and keep their id.
-- ARGV: buckets, one after the other; where to go on in the first (HSCAN); most headers
-- Reply: {'OK', how many were put right, where to go on ('0': this bucket is done), buckets looked at, last bucket there is} or {'NONE'}
if not head[1] then return {'NONE'} end
local last = math.floor(seq / IN_BUCKET)
local mended, looked, go_on = 0, 0, ARGV[2]

local function mend(number, j)
  local member = struct.pack('>I6', number)
  if j.state == 'L' then
    local lease = struct.pack('>I6I7', number, j.fence)
    if redis.call('ZSCORE', LSE, lease) then return end
    redis.call('ZADD', LSE, int(now), lease)
  elseif j.state == 'P' then
    if place(number, j) ~= 3 then return end
    if j.group then
      local mine = redis.call('ZRANGEBYLEX', GRP, '[' .. j.group .. member, '(' .. j.group .. struct.pack('>I6', number + 1))[1]
      local turn = redis.call('HGET', GA, j.group)
      if mine and turn and turn ~= int(number) then return end
    end
    enter(number, j)
  else
    local zset = j.state == 'X' and DEAD or DONE
    if redis.call('ZSCORE', zset, member) then return end
    redis.call('ZADD', zset, int(j.finished), member)
  end
  mended = mended + 1
end

for n = 1, #ARGV[1] / 6 do
  local b = struct.unpack('>I6', ARGV[1], n * 6 - 5)
  looked = looked + 1
  local found = redis.call('HSCAN', declared[b], go_on, 'COUNT', ARGV[3])
  go_on = found[1]
  for at = 1, #found[2], 2 do
    local place_ = tonumber(found[2][at])
    if place_ and (#found[2][at + 1] == HEADER_LEN or #found[2][at + 1] == HEADER_LEN + 16) then
      mend(b * IN_BUCKET + place_, parse(found[2][at + 1]))
    end
  end
  if #found[2] > 0 or go_on ~= '0' then break end
end
if mended > 0 then finish() end
return {'OK', int(mended), go_on, int(looked), int(last)}
