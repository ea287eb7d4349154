import { expect, test } from 'vitest'
import { forget, placeOf, seen, seenRevision } from '../../src/acknowledged.js'

test('of 10 000 sessions opened last, and of no more, it is known how far the store has come', () => {
  const place = (n: number): string => placeOf('unix:/x', 'default', `s${n}`)
  for (let n = 0; n < 10_000; n++) seen(place(n), 1, n)
  seen(place(0), 1, 77).revision = 78
  for (let n = 10_000; n < 10_010; n++) seen(place(n), 1, n)
  expect(seenRevision(place(0))).toBe(78)
  for (let n = 1; n <= 10; n++) expect(seenRevision(place(n))).toBe(0)
  expect(seenRevision(place(11))).toBe(11)
})

test('what was deleted is forgotten, and what a handle on it learns late is not taken for the next life', () => {
  const place = placeOf('unix:/x', 'default', 'deleted')
  const before = seen(place, 5, 10)
  forget(place, 4)
  expect(seenRevision(place)).toBe(10)
  forget(place, 5)
  before.revision = 11
  expect(seenRevision(place)).toBe(0)
  seen(place, 6, 1)
  before.revision = 12
  expect(seenRevision(place)).toBe(1)
  forget(place)
  expect(seenRevision(place)).toBe(0)
  expect(placeOf('a', 'b', 'c')).not.toBe(placeOf('a', 'b,c', ''))
})
