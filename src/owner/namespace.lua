#!lua
-- The root key of a namespace: makes it if there is none.
-- KEYS: namespace
-- ARGV: wrapped root key, sealed name
-- Reply: wrapped root key as it is stored
redis.call('HSETNX', KEYS[1], 'k', ARGV[1])
redis.call('HSETNX', KEYS[1], 'nm', ARGV[2])
return redis.call('HGET', KEYS[1], 'k')
