-- What every script of a queue begins with. The files after this one are for those that need them: each run of a script makes its
-- functions anew, and the fewer there are the sooner it is done. KEYS, the same in all of them:
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

local watched = tonumber(head[12] or 0) > now
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
