// The answer to a call is lost after the sidecar has done it. The client asks again under the same id, and gets what it would have got.
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { Claim, ClaimResult, Pannier } from '../src/index.js'
import { LosingProxy } from './support/proxy.js'
import { type Sidecar, sidecarForAll } from './support/sidecar.js'

let sidecar: Sidecar
let proxy: LosingProxy
let direct: Pannier
let pannier: Pannier
sidecarForAll(place => ({ sidecar, pannier: direct } = place))
beforeAll(async () => {
  proxy = await LosingProxy.start(join(sidecar.folder, 'run/proxy.sock'), sidecar.address.slice(5))
  pannier = await sidecar.connect({ address: proxy.address })
})
afterAll(async () => {
  await pannier?.close()
  proxy?.stop()
})

/** What `call` gives when the answer to its first try is lost. */
async function lost<T>(call: () => Promise<T>): Promise<T> {
  await pannier.conversations.get('a stream is open, with nothing on its way')
  const before = proxy.lost
  proxy.loseNext()
  const result = await call()
  expect(proxy.lost).toBe(before + 1)
  return result
}

function mine(result: ClaimResult): Claim {
  return result.claimed ? result : expect.fail(result.outcome)
}

test('claims: the one that was ours is ours', async () => {
  expect(await lost(() => pannier.dedup.claimOnce('once'))).toBe(true)
  expect(await direct.dedup.claimOnce('once')).toBe(false)
  expect(await lost(() => pannier.dedup.claimOnce('once'))).toBe(false)
  const claim = mine(await lost(() => pannier.dedup.claim('k')))
  expect(claim.outcome).toBe('new')
  expect((await lost(() => claim.extend('20s'))).outcome).toBe('extended')
  expect((await lost(() => claim.complete('done'))).outcome).toBe('completed')
  expect(await direct.dedup.claim('k')).toMatchObject({ outcome: 'duplicate', result: 'done' })
  const other = mine(await pannier.dedup.claim('r'))
  expect((await lost(() => other.release())).outcome).toBe('released')
  expect((await lost(() => pannier.dedup.claimBatch(['x', 'y', 'x']))).map(({ outcome }) => outcome)).toEqual(['new', 'new', 'inProgress'])
})

test('conversations: changed once, whatever others did in between', async () => {
  const first = await lost(() => pannier.conversations.advance('c', 'a', { n: 1 }, { expectedVersion: 0 }))
  expect(first).toMatchObject({ outcome: 'advanced', replayed: true, state: { step: 'a', fields: { n: 1 } } })
  expect((await direct.conversations.get('c')).version).toBe(first.state.version)
  expect(await lost(() => pannier.conversations.advance('c', 'b', {}, { expectedSteps: ['z'] }))).toMatchObject({ outcome: 'conflict' })
  expect((await lost(() => pannier.conversations.touch('c'))).step).toBe('a')
  expect(await lost(() => pannier.conversations.reset('c'))).toBe(true)
  expect((await direct.conversations.get('c')).exists).toBe(false)
})

test('caps: counted once', async () => {
  await direct.caps.setPolicy({ name: 'cap', algorithm: 'fixed', limit: 2, window: '1d' })
  const used = async (): Promise<number | undefined> => (await direct.caps.peek({}, 'cap')).policies[0]?.used
  expect(await lost(() => pannier.caps.consume({}, 'cap', { sendId: 's', reserve: true }))).toMatchObject({ allowed: true, outcome: 'replayed', state: 'reserved', usage: [{ used: 1 }] })
  expect(await used()).toBe(1)
  expect((await lost(() => pannier.caps.confirm('s'))).outcome).toBe('confirmed')
  expect((await lost(() => pannier.caps.refund('s'))).outcome).toBe('refunded')
  expect(await used()).toBe(0)
  expect(await lost(() => pannier.caps.noteInbound('r'))).toBeInstanceOf(Date)
})
