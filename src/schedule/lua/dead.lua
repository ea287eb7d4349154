-- Gives dead jobs a new life, or removes them.
-- ARGV: buckets; 'retry' or 'delete'; since (ms); how many to leave out at the front; most; blinded ids (packed), or '' for all; until (ms),
--   '' for now: those that die again meanwhile are none of them
-- Reply: {'OK', changed, left out, until} or {'NONE'}, {'NEED', …}. One whose id another job has by now cannot live again
if not head[1] then return {'NONE'} end
local until_ = ARGV[7] ~= '' and ARGV[7] or int(now)
local numbers = {}
if ARGV[6] ~= '' then
  for n = 1, #ARGV[6], 16 do
    local number = find(string.sub(ARGV[6], n, n + 15))
    if number then numbers[#numbers + 1] = number end
  end
else
  for _, member in ipairs(redis.call('ZRANGEBYSCORE', DEAD, ARGV[3], until_, 'LIMIT', ARGV[4], ARGV[5])) do
    numbers[#numbers + 1] = struct.unpack('>I6', member)
  end
end
for _, number in ipairs(numbers) do bucket(number) end
if needs > 0 then return wanting() end
fetch(numbers)
local changed, kept = 0, 0
for _, number in ipairs(numbers) do
  local j = load(number)
  local its = j and redis.call('HGET', U, j.id)
  if not j or j.state ~= 'X' then
    kept = kept + 1
  elseif ARGV[2] == 'delete' then
    redis.call('ZREM', DEAD, struct.pack('>I6', number))
    j.window, j.finished, j.due, j.flags = 0, 0, 0, 0
    forget(number, j)
    changed = changed + 1
  elseif its and its ~= int(number) then
    kept = kept + 1
  else
    redis.call('ZREM', DEAD, struct.pack('>I6', number))
    redis.call('HSET', U, j.id, int(number))
    redis.call('HDEL', bucket(number), 'e' .. field(number), 'g' .. field(number))
    j.state, j.attempts, j.due, j.finished, j.verdict, j.reason = 'P', 0, now, 0, '-', 0
    clear_flag(j, LOST)
    store(number, j)
    enter(number, j)
    emit(RESCHEDULED, number)
    changed = changed + 1
  end
end
finish()
return {'OK', int(changed), int(kept), until_}
