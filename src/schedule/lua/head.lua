-- What every script of a queue begins with. Each run of a script makes its functions anew, so there is none here, and the files after
-- this one are for those that need them. KEYS, the same in all of them:
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
local FENCE_AT, DEADLINE_AT = 32, 46
local CAP, INGEST, HOLD, CANCEL, LOST = 1, 2, 4, 8, 16
local IN_BUCKET = 1000
local LATEST = 253402300799999 -- the end of 9999
local DAY = 86400000
local band, bor, bnot = bit.band, bit.bor, bit.bnot

local head = redis.call('HMGET', H, 's', 'f', 't', 'lm', 'ld', 'cc', 'mx', 'bs', 'jt', 'sd', 'pz', 'wt', 'nc', 'nl', 'nd')
local seq, fence = tonumber(head[1] or 0), tonumber(head[2] or 0)
-- Never below what this queue has seen: a new primary's clock may be behind.
local now_us = math.max(server_us(), tonumber(head[3] or 0) * 1000)
local now = math.floor(now_us / 1000)
local skip_delayed = head[10] == '1'
local concurrency = tonumber(head[6] or 0)

-- The buckets that were declared.
local declared = {}
for n = 1, #ARGV[1] / 6 do
  declared[struct.unpack('>I6', ARGV[1], n * 6 - 5)] = KEYS[14 + n]
end
local watched = tonumber(head[12] or 0) > now
