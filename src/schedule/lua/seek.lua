-- The place in a list of the first that comes behind a score and member, whether they are still there or not.
local function seek(zset, newest_first, score, member)
  local range = newest_first and 'ZREVRANGE' or 'ZRANGE'
  local low, high = 0, redis.call('ZCARD', zset)
  while low < high do
    local middle = math.floor((low + high) / 2)
    local at = redis.call(range, zset, middle, middle, 'WITHSCORES')
    local its = tonumber(at[2])
    local behind
    if newest_first then
      behind = its < score or (its == score and at[1] < member)
    else
      behind = its > score or (its == score and at[1] > member)
    end
    if behind then high = middle else low = middle + 1 end
  end
  return low
end
