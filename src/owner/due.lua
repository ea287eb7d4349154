-- Owners whose earliest archive is due, and those marked as being made or unmade.
-- KEYS: index bucket
-- ARGV: most owners of each kind
-- Reply: {due tags}, {unsettled tags}
local now = string.format('%.0f', server_ms())
return {
  redis.call('ZRANGEBYSCORE', KEYS[1], 1, now, 'LIMIT', 0, ARGV[1]),
  redis.call('ZRANGEBYSCORE', KEYS[1], -1, -1, 'LIMIT', 0, ARGV[1]),
}
