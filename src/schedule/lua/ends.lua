-- How jobs end, and how their ids stay taken.
local function final(number, j, state, reason)
  j.state, j.reason, j.finished = state, reason, now
  clear_flag(j, CANCEL)
  local list = state == 'X' and ended_dead or ended
  list[#list + 1] = int(now)
  list[#list + 1] = struct.pack('>I6', number)
  leave(number, j)
  if state == 'D' then
    count('nd')
    emit(ENDED_DONE, number)
  elseif state == 'X' then
    count('nx')
    emit(ENDED_DEAD, number)
  else
    count('nk')
    emit(CANCELLED, number)
  end
end

-- Until when the id of a final job stays taken.
local function taken_until(j)
  if j.state == 'C' and not flag(j, HOLD) then return 0 end
  if flag(j, INGEST) then return math.max(j.finished, j.created + j.window) end
  if j.window == 0 then return 0 end
  return math.max(j.due, j.finished) + j.window
end

-- Takes a final job's record away; what is left of it is how long its id stays taken.
local function forget(number, j)
  local key, at = bucket(number), field(number)
  if redis.call('HGET', U, j.id) == int(number) then
    local until_ = taken_until(j)
    if until_ > now then
      local state = j.state == 'D' and 5 or j.state == 'X' and 6 or 7
      redis.call('HSET', U, j.id, 'T' .. struct.pack('>I6I6B', j.due, j.finished, state))
      redis.call('ZADD', UX, int(until_), j.id)
    else
      redis.call('HDEL', U, j.id)
    end
  end
  redis.call('HDEL', key, at, 'p' .. at, 'r' .. at, 'e' .. at, 'g' .. at)
end
