-- The add that nearly all are: one job of a queue that is there, with a new id, in no group. Anything else is left to the files after this
-- one, with nothing written; they do the same for this one.
-- ARGV, reply: as `add.lua`
local SPEC, SPEC_LEN = '>BBI2I2I4BBI6I5BI6c8c16', 54
if #ARGV == 5 and ARGV[2] == '' and ARGV[3] == '' and #ARGV[4] == SPEC_LEN and head[1] and not watched then
  local _, flags, priority, max, base, jitter, when_kind, when, window, deadline_kind, deadline, request, id = struct.unpack(SPEC, ARGV[4])
  local number = seq + 1
  local bucket, at = declared[math.floor(number / IN_BUCKET)], tostring(number % IN_BUCKET)
  if bucket and not redis.call('HGET', U, id) then
    local due = when_kind == 0 and now or math.min(when_kind == 1 and now + when or when, LATEST)
    if deadline_kind > 0 then deadline = math.min(deadline_kind == 1 and now + deadline or math.max(deadline, 1), LATEST) end
    -- Others are told of the first that is ready, and of one that is due before all others.
    local ready, tell = due <= now, false
    if ready then
      tell = redis.call('ZCARD', RDY) == 0
      redis.call('ZADD', RDY, priority, struct.pack('>I6I6', due, number))
    else
      tell = due < tonumber(redis.call('ZRANGE', DUE, 0, 0, 'WITHSCORES')[2] or LATEST + 1)
      redis.call('ZADD', DUE, int(due), struct.pack('>I2I6', priority, number))
    end
    redis.call('HSET', bucket, at, struct.pack(HEADER, 'P', flags, priority, 0, max, base, jitter, due, now, 0, 0, '-', 0, window, deadline,
      request, 1, id), 'p' .. at, ARGV[5])
    redis.call('HSET', U, id, int(number))
    redis.call('HSET', H, 's', int(number), 't', int(now), 'nc', int(tonumber(head[13] or 0) + 1))
    if tell then redis.call('PUBLISH', string.sub(KEYS[1], 1, -2) .. 'n', '') end
    return {'OK', now, number, struct.pack('>BBI6I6I6B', 1, ready and 2 or 1, number, due, 0, 0)}
  end
end
