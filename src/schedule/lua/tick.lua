-- What happens by itself: due jobs become ready, lost leases come back, what was kept long enough goes.
-- ARGV: buckets; most of each kind; chance in 1/65536; done: age (ms), count; dead: age, count (where the queue has none of its own)
-- Reply: {'OK', now, first due, first lease end, first to trim, first cron slot, how much is left to do now, how much was done, buckets needed…}
if not head[1] then return {'NONE'} end
local most, chance = tonumber(ARGV[2]), tonumber(ARGV[3]) / 65536
local done, left = promote(most), 0
if done >= most then left = left + 1 end

local function lost(number, its, member)
  local j = load(number)
  redis.call('ZREM', LSE, member)
  freed = true
  if not j or j.state ~= 'L' or j.fence ~= its then return end
  j.verdict = 'E'
  count('ne')
  emit(LEASE_LOST, number)
  if flag(j, CANCEL) then
    final(number, j, 'C', 0)
  elseif j.attempts >= attempts_most(j) then
    final(number, j, 'X', 1)
  else
    -- The first loss comes back at once; a job that takes its workers with it waits longer each time.
    j.state = 'P'
    if flag(j, LOST) then j.due = math.min(now + backoff(j, math.max(j.attempts - 1, 1), chance), LATEST) end
    set_flag(j, LOST)
    enter(number, j)
  end
  store(number, j)
end

local lapsed = redis.call('ZRANGEBYSCORE', LSE, '-inf', int(now), 'LIMIT', 0, most)
for _, member in ipairs(lapsed) do
  local number, its = struct.unpack('>I6I7', member)
  if bucket(number) then
    lost(number, its, member)
    done = done + 1
  end
end
if #lapsed >= most then left = left + 1 end

local settings = redis.call('HMGET', H, 'ra', 'rc', 'xa', 'xc', 'cz')
local trim_at = 0
local function trim(zset, age, kept)
  age, kept = tonumber(age), tonumber(kept)
  local over = redis.call('ZCARD', zset) - kept
  local first_ended = first(zset)
  if over <= 0 and (first_ended == 0 or first_ended + age > now) then
    if first_ended > 0 and (trim_at == 0 or first_ended + age < trim_at) then trim_at = first_ended + age end
    return
  end
  local old = redis.call('ZRANGE', zset, 0, most - 1, 'WITHSCORES')
  local gone = {}
  for n = 1, #old, 2 do
    if n > 2 * over and tonumber(old[n + 1]) + age > now then break end
    local number = struct.unpack('>I6', old[n])
    if bucket(number) then
      local j = load(number)
      if j then forget(number, j) end
      gone[#gone + 1] = old[n]
    end
  end
  if #gone > 0 then
    redis.call('ZREM', zset, unpack(gone))
    done = done + #gone
    if #gone >= most then left = left + 1 end
  end
  local oldest = redis.call('ZRANGE', zset, 0, 0, 'WITHSCORES')[2]
  if oldest then
    local at = tonumber(oldest) + age
    if trim_at == 0 or at < trim_at then trim_at = at end
  end
end
trim(DONE, settings[1] or ARGV[4], settings[2] or ARGV[5])
trim(DEAD, settings[3] or ARGV[6], settings[4] or ARGV[7])

local ids = redis.call('ZRANGEBYSCORE', UX, '-inf', int(now), 'LIMIT', 0, most)
for _, id in ipairs(ids) do
  local entry = redis.call('HGET', U, id)
  if entry and string.sub(entry, 1, 1) == 'T' then redis.call('HDEL', U, id) end
end
if #ids > 0 then
  redis.call('ZREM', UX, unpack(ids))
  done = done + #ids
  if #ids >= most then left = left + 1 end
end
local tombstone = first(UX)
if tombstone > 0 and (trim_at == 0 or tombstone < trim_at) then trim_at = tombstone end
if done > 0 then finish() end
-- Crons that rest: as if there were none.
local next_cron = settings[5] and 0 or first(CN)
local reply = {'OK', now, first(DUE), first(LSE), trim_at, next_cron, left, done}
for n in pairs(need) do reply[#reply + 1] = n end
return reply
