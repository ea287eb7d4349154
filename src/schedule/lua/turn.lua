-- The turn that nearly all are: one job is done, in no group, and the next that is ready is leased in its place. Anything else is left
-- to the files after this one, with nothing written; they do the same for these two.
-- ARGV: as `lease.lua`, then as `settles.lua`
local alone = #ARGV == 8 and ARGV[2] == '1' and ARGV[6] == '' and head[1] and not head[11] and not watched and concurrency == 0
  and (not head[4] or head[4] == '0')
if alone then
  local number, its, verdict = struct.unpack('>I6I7c1', ARGV[7])
  local bucket, at = declared[math.floor(number / IN_BUCKET)], tostring(number % IN_BUCKET)
  local old = bucket and verdict == 'A' and redis.call('HGET', bucket, at)
  local member = old and #old == HEADER_LEN and string.sub(old, 1, 1) == 'L' and struct.unpack('>I7', old, FENCE_AT) == its
    and redis.call('ZRANGE', RDY, 0, 0)[1]
  local due = member and redis.call('ZRANGE', DUE, 0, 0, 'WITHSCORES')[2]
  if member and (not due or tonumber(due) > now) then
    local _, next = struct.unpack('>I6I6', member)
    local next_bucket, next_at = declared[math.floor(next / IN_BUCKET)], tostring(next % IN_BUCKET)
    local found = next_bucket and redis.call('HMGET', next_bucket, next_at, 'p' .. next_at, 'g' .. next_at) or {}
    local header = found[1]
    local deadline = header and struct.unpack('>I6', header, DEADLINE_AT)
    if header and string.sub(header, 1, 1) == 'P' and band(string.byte(header, 2), CAP) == 0 and (deadline == 0 or deadline >= now) then
      fence = math.max(fence, now_us) + 1
      local done = struct.pack('>c1Bc23I6I7c1B', 'D', band(string.byte(old, 2), bnot(CANCEL + LOST)), string.sub(old, 3, 25), now, its, 'A', 0)
        .. string.sub(old, 41)
      local taken = struct.pack('>c1c3I2c25I7c1', 'L', string.sub(header, 2, 4), struct.unpack('>I2', header, 5) + 1, string.sub(header, 7, 31),
        fence, '-') .. string.sub(header, 40)
      if bucket == next_bucket then
        redis.call('HSET', bucket, at, done, next_at, taken)
      else
        redis.call('HSET', bucket, at, done)
        redis.call('HSET', next_bucket, next_at, taken)
      end
      if ARGV[8] ~= '' then redis.call('HSET', bucket, 'r' .. at, ARGV[8]) end
      redis.call('ZADD', DONE, int(now), struct.pack('>I6', number))
      redis.call('ZREM', RDY, member)
      redis.call('ZADD', LSE, int(now + tonumber(ARGV[3])), struct.pack('>I6I7', next, fence))
      redis.call('ZREM', LSE, string.sub(ARGV[7], 1, 13))
      redis.call('HSET', H, 'f', int(fence), 't', int(now), 'nl', int(tonumber(head[14] or 0) + 1), 'nd', int(tonumber(head[15] or 0) + 1))
      return {'OK', '1', struct.pack('>I6I6I6I6I6BI2', now, 1, 0, 0, 0, 0, tonumber(head[7] or 3)), '|', next, taken, found[2] or '', found[3] or '', '|'}
    end
  end
end
