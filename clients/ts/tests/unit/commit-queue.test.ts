import { expect, test } from 'vitest'
import { CommitQueue, type Queued } from '../../src/stream/commit-queue.js'

interface Op extends Queued { name: string }
const op = (name: string): Op => ({ name, opSeq: 0, sent: false, uncertain: false, abandoned: false })
const numbers = (queue: CommitQueue<Op>) => queue.items.map(item => `${item.name}${item.opSeq}`).join(' ')

function sent(queue: CommitQueue<Op>, limit = 64): Op[] {
  const all: Op[] = []
  for (let item = queue.take(limit); item; item = queue.take(limit)) all.push(item)
  return all
}

function queueOf(names: string): CommitQueue<Op> {
  const queue = new CommitQueue<Op>()
  for (const name of names) queue.add(op(name))
  return queue
}

test('commits are numbered and sent in order, at most so many at once', () => {
  const queue = queueOf('abcde')
  expect(sent(queue, 3).map(item => item.name + item.opSeq)).toEqual(['a1', 'b2', 'c3'])
  queue.committed(queue.items[0] as Op)
  expect(sent(queue, 3).map(item => item.name + item.opSeq)).toEqual(['d4'])
})

test('after a refusal the number goes to the next, and those behind move up', () => {
  const queue = queueOf('abcd')
  const [a, b, c, d] = sent(queue) as [Op, Op, Op, Op]
  queue.committed(a)
  queue.refused(b)
  queue.again(c)
  expect(queue.take(64)).toBeUndefined()
  queue.again(d)
  expect(queue.settle(1)).toBe('send')
  expect(numbers(queue)).toBe('c2 d3')
  expect(sent(queue)).toEqual([c, d])
})

test('an unknown outcome keeps its number and is sent again first', () => {
  const queue = queueOf('abc')
  const [a, b, c] = sent(queue) as [Op, Op, Op]
  queue.unknown(a)
  queue.again(b)
  queue.again(c)
  expect(queue.settle(0)).toBe('send')
  expect(numbers(queue)).toBe('a1 b2 c3')
  expect(sent(queue)).toEqual([a, b, c])
})

test('a number never passes on while a copy of its commit may still be under way', () => {
  const queue = queueOf('ab')
  const [a, b] = sent(queue) as [Op, Op]
  queue.refused(a)
  queue.unknown(b)
  expect(queue.settle()).toBe('reattach')
  queue.broken()
  expect(queue.reopened(0)).toBe(true)
  expect(numbers(queue)).toBe('b1')
})

test('after a new Open, what was applied is asked for again and the rest follows it', () => {
  const queue = queueOf('abcd')
  sent(queue, 3)
  queue.broken()
  expect(queue.reopened(2)).toBe(true)
  expect(numbers(queue)).toBe('a1 b2 c3 d0')
  const [a, b, c, d] = sent(queue) as [Op, Op, Op, Op]
  expect([a.uncertain, b.uncertain, c.uncertain]).toEqual([true, true, false])
  expect(d.opSeq).toBe(4)
})

test('a commit whose caller gave up leaves no gap', () => {
  const queue = queueOf('abc')
  const [a, b] = sent(queue) as [Op, Op, Op]
  queue.committed(a)
  expect(queue.abandon(b)).toBe(false)
  expect(queue.settle()).toBe('reattach')
  queue.broken()
  // It was applied after all, and c was not.
  expect(queue.reopened(2)).toBe(true)
  expect(numbers(queue)).toBe('c3')
  expect(queue.known).toBe(2)
  const [c] = sent(queue) as [Op]
  queue.again(c)
  expect(queue.settle(2)).toBe('send')
  expect(c.opSeq).toBe(3)
})

test('one not sent yet is simply taken out', () => {
  const queue = queueOf('abc')
  const [a] = sent(queue, 1) as [Op]
  expect(queue.abandon(queue.items[1] as Op)).toBe(true)
  queue.committed(a)
  expect(sent(queue).map(item => item.name + item.opSeq)).toEqual(['c2'])
})

test('a sidecar behind what it acknowledged is stale', () => {
  const queue = queueOf('ab')
  const [a, b] = sent(queue) as [Op, Op]
  queue.committed(a)
  queue.again(b)
  expect(queue.settle(0)).toBe('stale')
  queue.broken()
  expect(queue.reopened(0)).toBe(false)
})

test('random histories never give a number to two commits that may both be applied', () => {
  const seed = Math.floor(Math.random() * 2 ** 31)
  let state = seed
  const random = (n: number): number => {
    state = (Math.imul(state, 1103515245) + 12345) & 0x7fffffff
    return (state >> 8) % n
  }
  // The sidecar: the last number and what was applied. Messages of an older Open are dropped, as its fence does.
  let last = 0
  const applied: string[] = []
  const acknowledged: string[] = []
  const queue = new CommitQueue<Op>()
  let way: Op[] = []
  let made = 0
  const answer = (item: Op): void => {
    const fate = random(10)
    if (fate === 0 && item.opSeq > last) return queue.refused(item)
    if (item.opSeq === last + 1) {
      last++
      applied.push(item.name)
    } else if (item.opSeq > last) return queue.again(item)
    if (fate === 1) return queue.unknown(item)
    acknowledged.push(item.name)
    queue.committed(item)
  }
  for (let step = 0; step < 20_000; step++) {
    const what = random(12)
    if (what < 4 && queue.items.length < 20) queue.add(op(`#${made++}`))
    if (what === 11) {
      // The stream breaks: some of what was on its way arrived.
      for (const item of way.slice(0, random(way.length + 1))) {
        if (item.opSeq === last + 1) {
          last++
          applied.push(item.name)
        }
      }
      way = []
      queue.broken()
      expect(queue.reopened(last), `seed ${seed}`).toBe(true)
    }
    if (what === 10 && queue.items.length > 0) {
      const item = queue.items[random(queue.items.length)] as Op
      if (!item.abandoned && queue.abandon(item)) way = way.filter(one => one !== item)
    }
    const first = way.shift()
    if (first) answer(first)
    if (queue.held && queue.inFlight === 0 && queue.settle() === 'reattach') {
      way = []
      queue.broken()
      expect(queue.reopened(last), `seed ${seed}`).toBe(true)
    }
    for (let item = queue.take(8); item; item = queue.take(8)) way.push(item)
  }
  expect(new Set(applied).size, `seed ${seed}: applied once each`).toBe(applied.length)
  const order = applied.map(name => Number(name.slice(1)))
  expect(order, `seed ${seed}: in order`).toEqual([...order].sort((a, b) => a - b))
  const inside = new Set(applied)
  expect(acknowledged.every(name => inside.has(name)), `seed ${seed}: all acknowledged are in`).toBe(true)
})
