-- The send that nearly all are: not seen before, not reserved, under one FIXED policy where nothing is reserved and there is room. Anything
-- else is left to the files after this one, with nothing written; they do the same for this one.
-- KEYS, ARGV, reply: as `consume.lua`
if #KEYS == 5 then
  local raw, raws = redis.call('HGET', KEYS[1], string.sub(ARGV[2], 1, 8)), redis.call('MGET', unpack(KEYS, 2))
  if raw and not raws[1] and not raws[4] then
    local now = server_ms()
    local n, holds, fingerprint = struct.unpack('>I7I6c8', ARGV[1])
    local known, start, ends = struct.unpack('>I8I6I6', ARGV[2], 9)
    local algorithm, _, revision, _, limit = struct.unpack('>c1BI8I8I8', raw)
    local since, used = start, 0
    if raws[3] then since, used = struct.unpack('>I6I5', raws[3], 2) end
    used = (since == start and used or 0) + n
    if algorithm == 'F' and holds == 0 and revision == known and start <= now and now < ends and since <= start and used <= limit then
      local keep = math.min(math.max(KEEP_LEAST, ends - start), KEEP_MOST)
      redis.call('SET', KEYS[4], struct.pack('>c1I6I5', 'F', start, used), 'PX', ends - now + COLLECT)
      redis.call('SET', KEYS[2], struct.pack(ONE, 'C', now + keep, keep, fingerprint, 0, 'F', string.sub(KEYS[4], -16), start, n, ends,
        limit, used, ends), 'PX', keep + COLLECT)
      return {'ALLOWED', now, now + keep, limit, used, ends}
    end
  end
end
