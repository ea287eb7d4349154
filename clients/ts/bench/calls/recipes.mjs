// What people write today: the bare recipes, and one Lua script each that keeps the promises Pannier keeps (but for encryption).

import { Redis } from 'ioredis'
import { RateLimiterRedis } from 'rate-limiter-flexible'

/** Claim: free, in progress or done; fences, takeover by time, results of an earlier try of the same request. */
const CLAIM = `
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local r = redis.call('HMGET', KEYS[1], 'state', 'fence', 'until', 'request')
if r[1] == 'done' then
  if r[4] == ARGV[1] then return {'new', r[2]} end
  return {'duplicate', redis.call('HGET', KEYS[1], 'result')}
end
if r[1] and now < tonumber(r[3]) then
  if r[4] == ARGV[1] then return {'new', r[2]} end
  return {'in_progress', tonumber(r[3]) - now}
end
local fence = math.max((tonumber(r[2]) or 0) + 1, now)
redis.call('HSET', KEYS[1], 'state', ARGV[4] == '1' and 'done' or 'busy', 'fence', fence, 'until', now + ARGV[2], 'request', ARGV[1])
redis.call('PEXPIRE', KEYS[1], ARGV[3])
return {r[1] and 'takeover' or 'new', tostring(fence)}`

/** Advance: version, ceiling, compare-and-set, the last request remembered; gives the state. */
const ADVANCE = `
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local r = redis.call('HMGET', KEYS[1], '#version', '#started', '#max', '#request')
if r[4] == ARGV[1] then return {'advanced', redis.call('HGETALL', KEYS[1])} end
if r[3] and r[3] ~= '' and now >= r[2] + r[3] then
  redis.call('DEL', KEYS[1])
  return {'ceiling', {}}
end
if ARGV[4] ~= '' and ARGV[4] ~= (r[1] or '0') then return {'conflict', redis.call('HGETALL', KEYS[1])} end
local max = ARGV[3] ~= '' and ARGV[3] or r[3] or ''
redis.call('HSET', KEYS[1], '#version', (tonumber(r[1]) or 0) + 1, '#started', r[2] or now, '#max', max, '#request', ARGV[1], '#updated', now, unpack(ARGV, 5))
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return {'advanced', redis.call('HGETALL', KEYS[1])}`

/** Consume: a fixed window, a denial does not count, one send counts once. */
const CONSUME = `
local seen = redis.call('GET', KEYS[2])
if seen then return {'replayed', seen} end
local used = tonumber(redis.call('GET', KEYS[1]) or '0')
if used + ARGV[2] > tonumber(ARGV[1]) then return {'denied', redis.call('PTTL', KEYS[1])} end
used = redis.call('INCRBY', KEYS[1], ARGV[2])
redis.call('PEXPIREAT', KEYS[1], ARGV[3])
redis.call('SET', KEYS[2], used, 'PX', 172800000)
return {'allowed', used}`

const DAY_MS = 86_400_000
let requests = 0
const request = () => `00000000-0000-4000-8000-${String(++requests).padStart(12, '0')}`
const day = () => Math.floor(Date.now() / DAY_MS)

/** Clients of one connection each. `pipelined`: the calls of a tick go together, as ioredis can. */
export function ioredis(socket, pipelined) {
  const redis = new Redis({ path: socket, enableAutoPipelining: pipelined })
  redis.defineCommand('claimScript', { numberOfKeys: 1, lua: CLAIM })
  redis.defineCommand('advanceScript', { numberOfKeys: 1, lua: ADVANCE })
  redis.defineCommand('consumeScript', { numberOfKeys: 2, lua: CONSUME })
  const limiter = new RateLimiterRedis({ storeClient: redis, points: 1_000_000, duration: 86_400, keyPrefix: 'rlf' })
  return {
    redis,
    bare: {
      claim: async id => (await redis.set(`seen:${id}`, '1', 'EX', 86_400, 'NX')) === 'OK',
      advance: (chat, fields) => redis.multi().hset(`conv:${chat}`, { step: 'awaiting_amount', ...fields }).expire(`conv:${chat}`, 1800).exec(),
      consume: recipient => redis.multi().incr(`cap:${recipient}:${day()}`).expire(`cap:${recipient}:${day()}`, 86_400).exec(),
    },
    script: {
      claim: async id => (await redis.claimScript(`sclaim:${id}`, request(), 30_000, 8 * DAY_MS, '1'))[0] === 'new',
      advance: (chat, fields) => redis.advanceScript(`sconv:${chat}`, request(), 1_800_000, '', '', 'step', 'awaiting_amount', ...Object.entries(fields).flat()),
      consume: (recipient, send) => redis.consumeScript(`scap:${recipient}:${day()}`, `ssend:${send}`, 1_000_000, 1, (day() + 1) * DAY_MS),
    },
    limiter: { consume: recipient => limiter.consume(recipient) },
  }
}
