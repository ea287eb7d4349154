import { expect, test } from 'vitest'
import { decode, encode } from '../../src/baileys/json.js'
import { Prepared } from '../../src/baileys/prepared.js'

const session = (n: number): { n: number; chains: string[] } => ({ n, chains: Array.from({ length: 300 }, (_, i) => `${'k'.repeat(40)}${i}`) })

test('a value made beforehand is given out once, and every read has its own', () => {
  const stored = encode(session(1))
  new Prepared().add([stored])
  const made = stored.ready
  const first = decode(stored)
  expect(first).toBe(made)
  expect(first).toEqual(session(1))
  ;(first as { n: number }).n = 99
  expect(decode(stored)).toEqual(session(1))
  expect(stored.ready).toBeUndefined()
})

test('only so much is made beforehand; the oldest goes first', () => {
  const prepared = new Prepared()
  const all = Array.from({ length: 100 }, (_, n) => encode(session(n)))
  for (const one of all) prepared.add([one])
  const ready = all.filter(one => one.ready !== undefined)
  expect(ready.reduce((sum, one) => sum + one.size, 0)).toBeLessThan(600_000)
  expect(ready).toEqual(all.slice(-ready.length))
})

test('small values, bytes and huge ones are left alone', () => {
  const values = [encode({ a: 1 }), encode(Buffer.alloc(5_000)), encode({ huge: 'x'.repeat(200_000) })]
  new Prepared().add(values)
  expect(values.map(value => value.ready)).toEqual([undefined, undefined, undefined])
})
