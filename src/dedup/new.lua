-- The claim that nearly all are: nothing is known of the key. Anything else is left to the files after this one, with nothing written;
-- they do the same for this one.
-- KEYS, ARGV, reply: as `claim.lua`
if redis.call('EXISTS', KEYS[1]) == 0 then
  local us, retention, complete = server_us(), tonumber(ARGV[4]), ARGV[5] == '1'
  local now = math.floor(us / 1000)
  local till = complete and now + retention or math.ceil(us / 1000) + tonumber(ARGV[3])
  local ends = complete and till or math.max(till, now + retention)
  redis.call('SET', KEYS[1], struct.pack(HEAD, complete and 'D' or 'P', us, till, retention, ARGV[2] == '' and 1 or 9) .. ARGV[2]
    .. ARGV[1] .. (complete and 'n' or 'N'), 'PX', int(ends - now + COLLECT))
  return {'NEW', us, till, 0}
end
