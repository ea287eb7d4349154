-- Shared by the scripts of a queue. KEYS, the same in all of them:
--   1 h    head: nm sealed name · s last job number · f last fence · t the last now (ms) · settings · totals
--   2 u    unique keys: blinded id → number, or a tombstone of one whose job is gone
--   3 ux   zset: tombstones by when they end
--   4 due  zset: scheduled jobs by due time (ms)      5 rdy  zset: ready jobs by priority, then due time
--   6 lse  zset: leases by their end                  7 done, 8 dead  zsets: final jobs by when they ended
--   9 grp  zset, one score: group ‖ number: who is in a group and in which order
--  10 ga   hash: group → its member whose turn it is  11 lim  zset: the starts that the limiter counts
--  12 a request of LeaseJobs, or the head once more   13… buckets of 1 000 jobs: header, and sealed p payload, r result,
--     e error, g progress. ARGV[1] says which buckets they are. No other key is touched.
-- A header's state: P pending, L leased, D done, X dead, C cancelled. Where a pending job waits is said by the zset that holds it, so
-- a promotion or a group's next turn touches no header.
local H, U, UX, DUE, RDY, LSE, DONE, DEAD, GRP, GA, LIM, RQ, C, CN = unpack(KEYS, 1, 14)
local HEADER, HEADER_LEN = '>c1BI2I2I2I4BI6I6I6I7c1BI5I6c8Bc16', 76
local CAP, INGEST, HOLD, CANCEL, LOST = 1, 2, 4, 8, 16
local IN_BUCKET = 1000
local LATEST = 253402300799999 -- the end of 9999
local DAY = 86400000
local band, bor, bnot = bit.band, bit.bor, bit.bnot

local head = redis.call('HMGET', H, 's', 'f', 't', 'lm', 'ld', 'cc', 'mx', 'bs', 'jt', 'sd', 'pz', 'wt')
local seq, fence = tonumber(head[1] or 0), tonumber(head[2] or 0)
-- Never below what this queue has seen: a new primary's clock may be behind.
local now_us = math.max(server_us(), tonumber(head[3] or 0) * 1000)
local now = math.floor(now_us / 1000)
local skip_delayed = head[10] == '1'
local concurrency = tonumber(head[6] or 0)

-- Buckets: those that were declared, and those that would have been needed.
local declared, need, needs = {}, {}, 0
for n = 1, #ARGV[1] / 6 do
  declared[struct.unpack('>I6', ARGV[1], n * 6 - 5)] = KEYS[14 + n]
end

local function bucket(number)
  local n = math.floor(number / IN_BUCKET)
  local key = declared[n]
  if not key and not need[n] then
    need[n], needs = true, needs + 1
  end
  return key
end

-- The reply when buckets are missing: which.
local function wanting()
  local list = {}
  for n in pairs(need) do list[#list + 1] = int(n) end
  return {'NEED', int(seq), unpack(list)}
end

local function field(number)
  return tostring(number % IN_BUCKET)
end

local function parse(raw)
  local j = {}
  j.state, j.flags, j.priority, j.attempts, j.max, j.base, j.jitter, j.due, j.created, j.finished, j.fence, j.verdict,
    j.reason, j.window, j.deadline, j.request, j.outcome, j.id = struct.unpack(HEADER, raw)
  if #raw > HEADER_LEN then j.group = string.sub(raw, HEADER_LEN + 1) end
  return j
end

local function packed(j)
  return struct.pack(HEADER, j.state, j.flags, j.priority, j.attempts, j.max, j.base, j.jitter, j.due, j.created,
    j.finished, j.fence, j.verdict, j.reason, j.window, j.deadline, j.request, j.outcome, j.id) .. (j.group or '')
end

-- Headers are read and written in one command a bucket: what was loaded stays here until `finish` writes what was stored.
local loaded, stored = {}, {}

-- Reads `what` of many jobs, one command a bucket; `fields(number)` are the fields of one, and as many values come back.
local function read_all(numbers, count_, fields)
  local by_key = {}
  for _, number in ipairs(numbers) do
    local key = bucket(number)
    local asked = by_key[key]
    if not asked then
      asked = {numbers = {}, fields = {}}
      by_key[key] = asked
    end
    asked.numbers[#asked.numbers + 1] = number
    for _, name in ipairs(fields(number)) do asked.fields[#asked.fields + 1] = name end
  end
  local values = {}
  for key, asked in pairs(by_key) do
    local found = redis.call('HMGET', key, unpack(asked.fields))
    for n, number in ipairs(asked.numbers) do
      local its = {}
      for m = 1, count_ do its[m] = found[(n - 1) * count_ + m] end
      values[number] = its
    end
  end
  return values
end

local function preload(numbers)
  local found = read_all(numbers, 1, function(number) return {field(number)} end)
  for number, values in pairs(found) do loaded[number] = values[1] and parse(values[1]) or false end
end

local function load(number)
  if loaded[number] == nil then
    local raw = redis.call('HGET', bucket(number), field(number))
    loaded[number] = raw and parse(raw) or false
  end
  return loaded[number] or nil
end

local function store(number, j)
  loaded[number], stored[number] = j, j
end

local function write_stored()
  local by_key = {}
  for number, j in pairs(stored) do
    local key = bucket(number)
    local values = by_key[key]
    if not values then
      values = {}
      by_key[key] = values
    end
    values[#values + 1] = field(number)
    values[#values + 1] = packed(j)
  end
  for key, values in pairs(by_key) do redis.call('HSET', key, unpack(values)) end
  stored = {}
end

local function flag(j, bit_)
  return band(j.flags, bit_) ~= 0
end

local function set_flag(j, bit_)
  j.flags = bor(j.flags, bit_)
end

local function clear_flag(j, bit_)
  j.flags = band(j.flags, bnot(bit_))
end

-- What others are to hear of, once, at the end.
local totals, events = {}, {}
local ended, ended_dead = {}, {}
local ready_added, earliest_added, freed = false, nil, false
local ready_before, due_before = redis.call('ZCARD', RDY), redis.call('ZRANGE', DUE, 0, 0, 'WITHSCORES')[2]
local leases_before = concurrency > 0 and redis.call('ZCARD', LSE) or 0

local function count(what, n)
  totals[what] = (totals[what] or 0) + (n or 1)
end

local watched = tonumber(head[12] or 0) > now
local function emit(event, number)
  if watched then events[#events + 1] = struct.pack('>BI6', event, number) end
end
local CREATED, LEASED, ENDED_DONE, ENDED_DEAD, RETRY, LEASE_LOST, RELEASED, CANCELLED, PROGRESS, RESCHEDULED =
  3, 4, 5, 6, 7, 8, 9, 10, 11, 12

local function finish()
  write_stored()
  if #ended > 0 then redis.call('ZADD', DONE, unpack(ended)) end
  if #ended_dead > 0 then redis.call('ZADD', DEAD, unpack(ended_dead)) end
  redis.call('HSET', H, 's', int(seq), 'f', int(fence), 't', int(now))
  for what, n in pairs(totals) do redis.call('HINCRBY', H, what, n) end
  local channel = string.sub(KEYS[1], 1, -2)
  if (ready_added and ready_before == 0) or (freed and leases_before >= concurrency) then
    redis.call('PUBLISH', channel .. 'n', '')
  elseif earliest_added and (not due_before or earliest_added < tonumber(due_before)) then
    redis.call('PUBLISH', channel .. 'n', '')
  end
  if #events > 0 then redis.call('PUBLISH', channel .. 'e', struct.pack('>I6', now) .. table.concat(events)) end
end

local function due_member(number, j, detached)
  return struct.pack('>I2I6', j.priority, number) .. (detached and j.group or '')
end

local function ready_member(number, j)
  return struct.pack('>I6I6', j.due, number)
end

local function add_due(number, j, detached)
  redis.call('ZADD', DUE, int(j.due), due_member(number, j, detached))
  if not earliest_added or j.due < earliest_added then earliest_added = j.due end
end

-- A job whose turn in its group it is, or that has none.
local function put(number, j)
  if j.due <= now then
    redis.call('ZADD', RDY, j.priority, ready_member(number, j))
    ready_added = true
  else
    add_due(number, j, false)
  end
end

local function group_member(number, j)
  return j.group .. struct.pack('>I6I2I6', number, j.priority, j.due)
end

local function remove_member(number, j)
  redis.call('ZREMRANGEBYLEX', GRP, '[' .. j.group .. struct.pack('>I6', number),
    '(' .. j.group .. struct.pack('>I6', number + 1))
end

-- Takes a job out of its group for good; if it had the turn, the next has it.
local function leave(number, j)
  if not j.group then return end
  remove_member(number, j)
  if redis.call('HGET', GA, j.group) ~= int(number) then return end
  local next = redis.call('ZRANGEBYLEX', GRP, '[' .. j.group, '(' .. j.group .. string.rep('\255', 7), 'LIMIT', 0, 1)[1]
  if not next then
    redis.call('HDEL', GA, j.group)
    return
  end
  local successor, priority, due = struct.unpack('>I6I2I6', next, #j.group + 1)
  redis.call('HSET', GA, j.group, int(successor))
  put(successor, {priority = priority, due = due})
end

-- A pending job that is in no zset (any more) takes its place.
local function enter(number, j)
  if not j.group then
    put(number, j)
  elseif skip_delayed and j.due > now then
    -- It holds nobody: it joins the group when it is due.
    leave(number, j)
    add_due(number, j, true)
  else
    remove_member(number, j)
    redis.call('ZADD', GRP, 0, group_member(number, j))
    local turn = redis.call('HGET', GA, j.group)
    if not turn then redis.call('HSET', GA, j.group, int(number)) end
    if not turn or turn == int(number) then put(number, j) end
  end
end

-- Takes a pending job out of the zsets of time, not out of its group.
local function withdraw(number, j)
  redis.call('ZREM', RDY, ready_member(number, j))
  redis.call('ZREM', DUE, due_member(number, j, false))
  if j.group then redis.call('ZREM', DUE, due_member(number, j, true)) end
end

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

local function is_final(j)
  return j.state == 'D' or j.state == 'X' or j.state == 'C'
end

-- As JobState has it.
local function place(number, j)
  if j.state == 'L' then return 4 end
  if j.state == 'D' then return 5 end
  if j.state == 'X' then return 6 end
  if j.state == 'C' then return 7 end
  if redis.call('ZSCORE', RDY, ready_member(number, j)) then return 2 end
  local plain = redis.call('ZSCORE', DUE, due_member(number, j, false))
  if plain or (j.group and redis.call('ZSCORE', DUE, due_member(number, j, true))) then return j.due <= now and 2 or 1 end
  return 3
end

local function attempts_most(j)
  return j.max > 0 and j.max or tonumber(head[7] or 3)
end

-- The wait before the attempt that follows `n` failed ones; `chance` in [0, 1).
local function backoff(j, n, chance)
  local base = j.base > 0 and j.base or tonumber(head[8] or 60000)
  local jitter = (j.jitter < 255 and j.jitter or tonumber(head[9] or 0)) / 100
  local wait = math.min(DAY, base * 2 ^ math.min(n - 1, 40))
  return math.floor(wait * (1 - jitter * chance))
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
    redis.call('ZADD', RDY, unpack(ready))
    ready_added = true
  end
  return #gone
end

-- When something happens by itself next: the first due job, the first end of a lease. 0: never.
local function first(zset)
  local score = redis.call('ZRANGE', zset, 0, 0, 'WITHSCORES')[2]
  return score and int(tonumber(score)) or '0'
end

-- The number that an id stands for now, or what is left of one that has ended.
local function find(id)
  local entry = redis.call('HGET', U, id)
  if not entry then return nil end
  if string.sub(entry, 1, 1) == 'T' then return nil, entry end
  return tonumber(entry)
end

-- Tells the worker that has a lease that it is to be cancelled.
local function ask_to_cancel(number, j)
  set_flag(j, CANCEL)
  redis.call('HSET', bucket(number), field(number), packed(j))
  redis.call('PUBLISH', string.sub(KEYS[1], 1, -2) .. 'n', 'c' .. struct.pack('>I6I7', number, j.fence))
end

-- A job as listings show it.
local function row(number, j, raw)
  local lease_end = j.state == 'L' and redis.call('ZSCORE', LSE, struct.pack('>I6I7', number, j.fence)) or 0
  return int(number), tostring(place(number, j)), raw, int(tonumber(lease_end or 0)), int(attempts_most(j))
end
