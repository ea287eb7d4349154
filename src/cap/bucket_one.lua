-- The send that nearly all are: not seen before, not reserved, under one GCRA policy where nothing is reserved and there is room. Anything
-- else is left to the files after this one, with nothing written; they do the same for this one.
-- KEYS, ARGV, reply: as `consume.lua`
if #KEYS == 5 then
  local raw, raws = redis.call('HGET', KEYS[1], string.sub(ARGV[2], 1, 8)), redis.call('MGET', unpack(KEYS, 2))
  if raw and not raws[1] and not raws[4] then
    local now_us = server_us()
    local now = math.floor(now_us / 1000)
    local n, holds, fingerprint = struct.unpack('>I7I6c8', ARGV[1])
    local algorithm, _, revision, _, limit, period = struct.unpack('>c1BI8I8I8I8', raw)
    local from = math.max(now_us, raws[3] and struct.unpack('>I7', raws[3], 2) or 0)
    local took = n * period
    local whole = from + took
    if algorithm == 'G' and holds == 0 and revision == struct.unpack('>I8', ARGV[2], 9) and whole - now_us <= limit * period then
      local till, used = math.ceil(whole / 1000), math.ceil((whole - now_us) / period)
      local keep = math.min(math.max(KEEP_LEAST, math.ceil(limit * period / 1000)), KEEP_MOST)
      redis.call('SET', KEYS[4], struct.pack('>c1I7', 'G', whole), 'PX', till - now + COLLECT)
      redis.call('SET', KEYS[2], struct.pack(ONE, 'C', now + keep, keep, fingerprint, 0, 'G', string.sub(KEYS[4], -16), from, took, till,
        limit, used, till), 'PX', keep + COLLECT)
      return {'ALLOWED', now, now + keep, limit, used, till}
    end
  end
end
