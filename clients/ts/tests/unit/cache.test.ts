import { expect, test } from 'vitest'
import { RecordCache } from '../../src/baileys/cache.js'
import { encode } from '../../src/baileys/json.js'

const value = (bytes: number) => encode('x'.repeat(bytes))

// WhiskeySockets/Baileys#1377
test('the cache is bounded by bytes, the least recently used goes first', () => {
  const cache = new RecordCache(100_000)
  for (let i = 0; i < 1000; i++) {
    cache.set('session', String(i), value(1000))
    cache.get('session', '0')
    expect(cache.bytes).toBeLessThanOrEqual(100_000)
  }
  expect(cache.get('session', '0')).toBeTruthy()
  expect(cache.get('session', '1')).toBeUndefined()
  expect(cache.get('session', '999')).toBeTruthy()
})

test('misses are remembered, and bounded too', () => {
  const cache = new RecordCache(10_000)
  for (let i = 0; i < 1000; i++) cache.set('lid-mapping', String(i), undefined)
  expect(cache.bytes).toBeLessThanOrEqual(10_000)
  expect(cache.get('lid-mapping', '999')).toBeNull()
  expect(cache.get('lid-mapping', '0')).toBeUndefined()
})

test('of a complete type, what is not there is known to be missing, until something had to go', () => {
  const cache = new RecordCache(10_000)
  cache.completed(['session'])
  expect(cache.get('session', 'a')).toBeNull()
  expect(cache.get('pre-key', 'a')).toBeUndefined()
  for (let i = 0; i < 20; i++) cache.set('session', String(i), value(1000))
  expect(cache.get('session', 'a')).toBeUndefined()
})

test('an empty session is complete in every type but those that lost something', () => {
  const cache = new RecordCache(10_000)
  cache.empty()
  expect(cache.get('foo-bar', 'a')).toBeNull()
  cache.set('session', 'big', value(9000))
  expect(cache.get('session', 'big')).toBeUndefined()
  expect(cache.get('session', 'other')).toBeUndefined()
  expect(cache.get('foo-bar', 'a')).toBeNull()
})

test('a delete is a known miss', () => {
  const cache = new RecordCache(10_000)
  cache.set('pre-key', '7', value(10))
  cache.set('pre-key', '7', undefined)
  expect(cache.get('pre-key', '7')).toBeNull()
  cache.drop()
  expect(cache.get('pre-key', '7')).toBeUndefined()
  expect(cache.bytes).toBe(0)
})
