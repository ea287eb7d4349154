-- Settles, and leases nothing.
-- ARGV: buckets; five that are not used; what `settle.lua` says
-- Reply: {'OK', outcomes}, {'NONE'} or {'NEED', …}
if #over > 0 then redis.call('ZREM', LSE, unpack(over)) end
finish()
return {'OK', outcomes}
