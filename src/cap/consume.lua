-- Asks for leave to send: all policies are judged, then all counted.
-- KEYS: policies, send, inbound, then for each policy: counter, reserved
-- ARGV: packed: n, reserve for (ms; 0 = commit), fingerprint of the send, recipient (8 bytes), the send's short name (8 bytes); then for
--       each policy packed: name (8 bytes), revision, and the current window's start and end (fixed only)
-- Reply: ALLOWED now till, REPLAYED now state till (each with limit, used, reset of each policy) | DENIED now k wait | NEVER now k |
--        MISMATCH now | NO_POLICY k | STALE_POLICY k packed | STALE_WINDOW now | FULL
local n, holds, fingerprint, recipient, short = struct.unpack('>I7I6c8c8c8', ARGV[1])
local lapses = holds > 0
local s = load_send(raws[1])
if s and ((s.state == 'R' or s.state == 'C') and s.till > now) then
  if s.fingerprint ~= fingerprint then return {'MISMATCH', now} end
  local reply = {'REPLAYED', now, s.state, s.till}
  for _, p in ipairs(s.parts) do told(reply, p.limit, p.used, p.reset) end
  return reply
end

local list, refusal = policies(recipient, n)
if not list then return refusal end
local slowest, keep = nil, KEEP_LEAST
for k, p in ipairs(list) do
  if p.never then return {'NEVER', now, k} end
  if p.wait > 0 and (not slowest or p.wait > list[slowest].wait) then slowest = k end
  -- What has lapsed goes at the next write; the bucket has seen to its own.
  if p.algorithm ~= 'G' and #p.reserved > 0 then
    local live = {}
    for _, r in ipairs(p.reserved) do
      if r.lapses > now then live[#live + 1] = r end
    end
    p.reserved = live
  end
end
if slowest then return {'DENIED', now, slowest, list[slowest].wait} end
local till = lapses and now + holds or 0
for _, p in ipairs(list) do
  if lapses and #p.reserved >= RESERVED_MAX then return {'FULL'} end
end

local reply, parts = {}, {}
for k, p in ipairs(list) do
  local fresh = p.algorithm == 'U' and 0 or n
  count[p.algorithm](p, n, lapses)
  local took = p.algorithm ~= 'U' or not p.open
  if lapses and took then
    p.reserved[#p.reserved + 1] = {send = short, lapses = till, a = p.a, b = p.b, recipient = p.recipient}
  end
  if #p.reserved > 0 then
    local last = p.algorithm == 'G' and p.until_ or 0
    for _, r in ipairs(p.reserved) do last = math.max(last, r.lapses) end
    redis.call('SET', p.key, pack_reservations(p.reserved), 'PX', int(last - now + COLLECT))
  elseif p.algorithm == 'G' then
    redis.call('DEL', p.key)
  end
  local used, reset = p.used + fresh, p.reset
  if p.algorithm == 'G' then
    used, reset = math.ceil((p.whole - now_us) / p.window), p.until_
  elseif p.algorithm == 'R' then
    local ends = lapses and math.min(till, p.until_) or p.until_
    reset = reset > 0 and math.min(reset, ends) or ends
  elseif p.algorithm == 'U' and took then
    -- Whose last send was the oldest may have changed with this one.
    judge.U(p, n)
    used, reset = p.used, p.reset
  end
  local limit = (p.algorithm == 'U' and p.flags % 4 >= 2) and 0 or p.limit
  told(reply, limit, used, reset)
  parts[k] = {algorithm = p.algorithm, counter = string.sub(p.counter, -16), a = p.a, b = p.b, ends = p.until_,
    recipient = took and p.recipient or NOBODY, limit = limit, used = used, reset = reset}
  keep = math.max(keep, p.algorithm == 'G' and math.ceil(p.limit * p.window / 1000) or p.algorithm == 'F' and p.ends - p.start
    or p.window)
end
keep = math.min(keep, KEEP_MOST)
local send = {state = lapses and 'R' or 'C', till = lapses and till or now + keep, keep = keep, fingerprint = fingerprint,
  marks = s and s.marks or {}, parts = parts}
save_send(KEYS[2], send, (lapses and till - now or 0) + keep + COLLECT)
return {'ALLOWED', now, send.till, unpack(reply)}
