-- What most scripts of a queue share.
-- Buckets that would have been needed, beside those that were declared.
local need, needs = {}, 0

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
  for n in pairs(need) do list[#list + 1] = n end
  return {'NEED', seq, unpack(list)}
end

local function field(number)
  return tostring(number % IN_BUCKET)
end

local function packed(j)
  return struct.pack(HEADER, j.state, j.flags, j.priority, j.attempts, j.max, j.base, j.jitter, j.due, j.created,
    j.finished, j.fence, j.verdict, j.reason, j.window, j.deadline, j.request, j.outcome, j.id) .. (j.group or '')
end

-- Headers are read and written in one command a bucket: what was loaded stays here until `finish` writes what was stored.
local loaded, stored, write_stored = {}, {}, nil

-- What others are to hear of, once, at the end.
local totals, events = {}, {}
local ended, ended_dead = {}, {}
local earliest_added, freed = nil, false
-- How many were ready, and when the first was due, before this call added any; nil: it has added none.
local ready_before, due_before
local function before_ready()
  if not ready_before then ready_before = redis.call('ZCARD', RDY) end
end
local function before_due()
  if not due_before then due_before = tonumber(redis.call('ZRANGE', DUE, 0, 0, 'WITHSCORES')[2] or LATEST + 1) end
end
local leases_before = concurrency > 0 and redis.call('ZCARD', LSE) or 0

local function count(what, n)
  totals[what] = (totals[what] or 0) + (n or 1)
end

local function emit(event, number)
  if watched then events[#events + 1] = struct.pack('>BI6', event, number) end
end
local CREATED, LEASED, ENDED_DONE, ENDED_DEAD, RETRY, LEASE_LOST, RELEASED, CANCELLED, PROGRESS, RESCHEDULED =
  3, 4, 5, 6, 7, 8, 9, 10, 11, 12

local function finish()
  if write_stored then write_stored() end
  if #ended > 0 then redis.call('ZADD', DONE, unpack(ended)) end
  if #ended_dead > 0 then redis.call('ZADD', DEAD, unpack(ended_dead)) end
  redis.call('HSET', H, 's', int(seq), 'f', int(fence), 't', int(now))
  for what, n in pairs(totals) do redis.call('HINCRBY', H, what, n) end
  local channel = string.sub(KEYS[1], 1, -2)
  if ready_before == 0 or (freed and concurrency > 0 and leases_before >= concurrency) then
    redis.call('PUBLISH', channel .. 'n', '')
  elseif earliest_added and earliest_added < due_before then
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

-- When something happens by itself next: the first due job, the first end of a lease. 0: never.
local function first(zset)
  local score = redis.call('ZRANGE', zset, 0, 0, 'WITHSCORES')[2]
  return tonumber(score or 0)
end
