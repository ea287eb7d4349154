import { expect, test } from 'vitest'
import type { AdvanceResult, Fields, Pannier } from '../src/index.js'
import { newName, pause } from './support/states.js'
import { type Sidecar, sidecarForAll } from './support/sidecar.js'

let sidecar: Sidecar
let pannier: Pannier
sidecarForAll(place => ({ sidecar, pannier } = place))

const IDLE = { exists: false, step: 'idle', fields: {}, version: 0 }

test('an unknown conversation is idle', async () => {
  expect(await pannier.conversations.get(newName())).toEqual(IDLE)
  expect(await pannier.conversations.touch(newName())).toEqual(IDLE)
  expect(await pannier.conversations.reset(newName())).toBe(false)
})

test('a step and fields: set, keep, unset, replace', async () => {
  const chat = newName()
  const first = await pannier.conversations.advance(chat, 'awaiting_amount', { invoiceId: 'INV-7', count: 1 })
  expect(first).toMatchObject({ outcome: 'advanced', replayed: false, state: { exists: true, step: 'awaiting_amount', fields: { invoiceId: 'INV-7', count: 1 } } })
  const second = await pannier.conversations.advance(chat, 'confirm', { amount: 120.5, count: 2 }, { unset: ['invoiceId', 'never there'] })
  expect({ ...second.state.fields }).toEqual({ amount: 120.5, count: 2 })
  expect(second.state.version).toBeGreaterThan(first.state.version)
  // Without a step it stays; the fields too.
  const third = await pannier.conversations.advance(chat)
  expect(third.state).toMatchObject({ step: 'confirm', fields: { amount: 120.5, count: 2 } })
  const fourth = await pannier.conversations.advance(chat, undefined, { only: true }, { replace: true })
  expect(fourth.state.step).toBe('confirm')
  expect({ ...fourth.state.fields }).toEqual({ only: true })
  expect(await pannier.conversations.get(chat)).toEqual(fourth.state)
})

test('a conversation begun without a step is at idle, and exists', async () => {
  const { state } = await pannier.conversations.advance(newName(), undefined, { a: '1' })
  expect(state).toMatchObject({ exists: true, step: 'idle', fields: { a: '1' } })
})

test('values and names come back as what they were', async () => {
  const chat = newName()
  const fields: Fields = {
    text: 'ü😀', empty: '', zero: 0, float: -1.5, yes: true, nothing: null, list: [1, 'a', { b: null }], bytes: new Uint8Array([0, 254, 255]), ['__proto__']: 'p', ' :*{}\u0000😀': 'odd',
    large: 'x'.repeat(200_000),
  }
  await pannier.conversations.advance(chat, 's', fields)
  expect(Object.entries((await pannier.conversations.get(chat)).fields).sort()).toEqual(Object.entries(fields).sort())
})

test('typed fields', async () => {
  interface Order {
    amount: number
    items: string[]
  }
  const chat = newName()
  await pannier.conversations.advance<Order>(chat, 'order', { amount: 3, items: ['a'] })
  const state = await pannier.conversations.get<Order>(chat)
  const amount: number | undefined = state.fields.amount
  const items: string[] = state.exists ? (state.fields.items ?? []) : []
  expect([amount, items]).toEqual([3, ['a']])
})

test('silence ends it; each advance and touch begins its time anew', async () => {
  const chat = newName()
  await pannier.conversations.advance(chat, 'a', {}, { ttl: 2000 })
  await pause(1100)
  expect(await pannier.conversations.touch(chat, { ttl: 2000 })).toMatchObject({ exists: true, step: 'a' })
  await pause(1100)
  expect((await pannier.conversations.advance(chat, 'b', {}, { ttl: 2000 })).state.exists).toBe(true)
  await pause(1100)
  expect((await pannier.conversations.get(chat)).step).toBe('b')
  await pause(950)
  expect(await pannier.conversations.get(chat)).toEqual(IDLE)
})

test('a ceiling ends it whatever happens; the next one begins anew', async () => {
  const chat = newName()
  const { state } = await pannier.conversations.advance(chat, 'a', { x: '1' }, { maxAge: '2s' })
  expect(state.exists && state.endsAt && state.endsAt.getTime() - state.startedAt.getTime()).toBe(2000)
  await pause(500)
  expect((await pannier.conversations.advance(chat, 'b')).outcome).toBe('advanced')
  await pause(1550)
  expect(await pannier.conversations.get(chat)).toEqual(IDLE)
  expect(await pannier.conversations.advance(chat, 'c')).toMatchObject({ outcome: 'ceiling', state: IDLE })
  const next = await pannier.conversations.advance(chat, 'c')
  expect(next).toMatchObject({ outcome: 'advanced', state: { step: 'c', fields: {} } })
  expect(next.state.version).toBeGreaterThan(state.version)
})

test('what is expected must hold: a version, or one of several steps', async () => {
  const chat = newName()
  const first = await pannier.conversations.advance(chat, 'a', {}, { expectedVersion: 0 })
  expect(first.outcome).toBe('advanced')
  expect(await pannier.conversations.advance(chat, 'b', {}, { expectedVersion: 0 })).toMatchObject({ outcome: 'conflict', state: first.state })
  const both = await Promise.all(['x', 'y'].map(step => pannier.conversations.advance(chat, step, {}, { expectedVersion: first.state.version })))
  const won = both.find(({ outcome }) => outcome === 'advanced') as AdvanceResult
  const lost = both.find(({ outcome }) => outcome === 'conflict') as AdvanceResult
  expect(lost.state).toEqual(won.state)
  expect((await pannier.conversations.advance(chat, 'c', {}, { expectedSteps: ['a', 'b'] })).outcome).toBe('conflict')
  expect((await pannier.conversations.advance(chat, 'c', {}, { expectedSteps: ['b', 'x', 'y'] })).outcome).toBe('advanced')
  expect((await pannier.conversations.advance(newName(), 'c', {}, { expectedSteps: ['idle'] })).outcome).toBe('advanced')
})

// Two workers with a message of the same chat each: neither answer is lost.
test('changes of one conversation at the same time are all kept', async () => {
  const chat = newName()
  await pannier.conversations.advance(chat, 'a')
  await Promise.all(Array.from({ length: 24 }, (_, n) => pannier.conversations.advance(chat, undefined, { [`f${n}`]: n }, { timeout: '20s' })))
  expect({ ...(await pannier.conversations.get(chat)).fields }).toEqual(Object.fromEntries(Array.from({ length: 24 }, (_, n) => [`f${n}`, n])))
})

test('reset ends it at once', async () => {
  const chat = newName()
  const { state } = await pannier.conversations.advance(chat, 'a')
  expect(await pannier.conversations.reset(chat)).toBe(true)
  expect(await pannier.conversations.get(chat)).toEqual(IDLE)
  expect((await pannier.conversations.advance(chat, 'b')).state.version).toBeGreaterThan(state.version)
})

test('ids of any characters are distinct, and never patterns', async () => {
  const odd = ['a:b', 'a', '*', '?', '{x}', '{x', '+', ' ', '\n', '\u0000', 'A', '__proto__', '😀'.repeat(128), 'x'.repeat(512)]
  await Promise.all(odd.map(id => pannier.conversations.advance(id, 's', { id })))
  expect((await Promise.all(odd.map(id => pannier.conversations.get(id)))).map(({ fields }) => fields.id)).toEqual(odd)
})

test('all are listed, without values', async () => {
  const own = await sidecar.connect({ namespace: 'listed' })
  const ids = Array.from({ length: 2500 }, (_, n) => `chat ${n} é`)
  await Promise.all(ids.map(id => own.conversations.advance(id, 'step', { a: '12' }, { timeout: '30s' })))
  const seen = new Map<string, unknown>()
  for await (const one of own.conversations.list()) seen.set(one.id, one)
  expect([...seen.keys()].sort()).toEqual([...ids].sort())
  expect(seen.get('chat 7 é')).toMatchObject({ step: 'step', fields: 1, bytes: 3, endsAt: undefined })
})

test('too much is refused, and nothing is changed', async () => {
  const chat = newName()
  const { state } = await pannier.conversations.advance(chat, 'a', { a: 'x'.repeat(200_000) })
  // This one only the sidecar can judge: together with what is there.
  await expect(pannier.conversations.advance(chat, 'b', { b: 'x'.repeat(100_000) })).rejects.toMatchObject({ reason: 'TOO_LARGE' })
  await expect(pannier.conversations.advance(chat, 'b', { a: undefined })).rejects.toMatchObject({ reason: 'BAD_FIELD', field: 'set' })
  await expect(pannier.conversations.advance(chat, 'b', {}, { tll: 5 } as object)).rejects.toThrow('did you mean `ttl`')
  expect(await pannier.conversations.get(chat)).toEqual(state)
})
