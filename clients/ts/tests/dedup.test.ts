import { expect, test } from 'vitest'
import type { Claim, ClaimResult, Pannier } from '../src/index.js'
import { newName, pause } from './support/states.js'
import { type Sidecar, sidecarForAll } from './support/sidecar.js'

let sidecar: Sidecar
let pannier: Pannier
sidecarForAll(place => ({ sidecar, pannier } = place))

function mine(result: ClaimResult): Claim {
  if (!result.claimed) return expect.fail(`the claim is not ours: ${result.outcome}`)
  return result
}

test('claimOnce: true for the first, false for all others, true again when its time is over', async () => {
  const key = newName()
  expect(await pannier.dedup.claimOnce(key, { ttl: 1500 })).toBe(true)
  expect(await pannier.dedup.claimOnce(key)).toBe(false)
  await pause(1550)
  expect(await pannier.dedup.claimOnce(key)).toBe(true)
})

test('50 claims of one key at once: one is new, the others are in progress', async () => {
  const key = newName()
  const results = await Promise.all(Array.from({ length: 50 }, () => pannier.dedup.claim(key)))
  const outcomes = results.map(({ outcome }) => outcome).sort()
  expect(outcomes).toEqual([...Array<string>(49).fill('inProgress'), 'new'])
  for (const result of results) {
    if (result.outcome !== 'inProgress') continue
    expect(result.claimed).toBe(false)
    expect(result.retryAfterMs).toBeGreaterThan(25_000)
    // Rounded up to the end of the time and to a millisecond.
    expect(result.retryAfterMs).toBeLessThanOrEqual(30_001)
  }
})

test('a claim whose worker is gone is taken over when its time ends, not before; the first may not end it then', async () => {
  const key = newName()
  const first = mine(await pannier.dedup.claim(key, { inProgressTtl: 1500 }))
  expect(first.outcome).toBe('new')
  const busy = await pannier.dedup.claim(key, { inProgressTtl: 1500 })
  if (busy.outcome !== 'inProgress') return expect.fail(busy.outcome)
  await pause(busy.retryAfterMs)
  const second = mine(await pannier.dedup.claim(key, { inProgressTtl: '10s' }))
  expect(second.outcome).toBe('takeover')
  expect(second.fence).toBeGreaterThan(first.fence)
  expect(await first.complete()).toEqual({ outcome: 'leaseLost' })
  expect(await first.extend()).toEqual({ outcome: 'leaseLost' })
  expect(await first.release()).toEqual({ outcome: 'leaseLost' })
  expect(await second.complete()).toMatchObject({ outcome: 'completed' })
})

test('complete: the key is a duplicate with its result until its retention ends; repeating it is the same', async () => {
  const key = newName()
  const claim = mine(await pannier.dedup.claim(key))
  const done = await claim.complete({ reply: 'wamid.1', ü: [1, null] }, { retention: 2000 })
  if (done.outcome !== 'completed') return expect.fail(done.outcome)
  expect(await claim.complete({ reply: 'wamid.1', ü: [1, null] }, { retention: 2000 })).toMatchObject({ outcome: 'completed' })
  const again = await pannier.dedup.claim<{ reply: string }>(key)
  expect(again).toMatchObject({ claimed: false, outcome: 'duplicate', result: { reply: 'wamid.1', ü: [1, null] } })
  expect(again.outcome === 'duplicate' && again.result?.reply).toBe('wamid.1')
  expect(await claim.extend()).toEqual({ outcome: 'leaseLost' })
  expect(await claim.release()).toEqual({ outcome: 'leaseLost' })
  await pause(2050)
  expect((await pannier.dedup.claim(key)).outcome).toBe('new')
})

test('results come back as what they were, nothing as nothing', async () => {
  for (const result of [undefined, '', 'text ü', new Uint8Array([0, 255]), 0, null, false, ['a']]) {
    const key = newName()
    await mine(await pannier.dedup.claim(key)).complete(result)
    expect(await pannier.dedup.claim(key)).toMatchObject({ outcome: 'duplicate', result })
  }
})

test('release: the key is free at once', async () => {
  const key = newName()
  const claim = mine(await pannier.dedup.claim(key))
  expect(await claim.release()).toEqual({ outcome: 'released' })
  expect(await claim.release()).toEqual({ outcome: 'released' })
  expect(await claim.complete()).toEqual({ outcome: 'leaseLost' })
  const next = mine(await pannier.dedup.claim(key))
  expect(next.fence).toBeGreaterThan(claim.fence)
})

test('extend: more time, counted from now', async () => {
  const key = newName()
  const claim = mine(await pannier.dedup.claim(key, { inProgressTtl: 400 }))
  const extended = await claim.extend('20s')
  if (extended.outcome !== 'extended') return expect.fail(extended.outcome)
  expect(extended.expiresAt.getTime() - claim.expiresAt.getTime()).toBeGreaterThan(19_000)
  await pause(500)
  expect((await pannier.dedup.claim(key)).outcome).toBe('inProgress')
})

test('another fingerprint is a mismatch, the same one is not, none is not compared', async () => {
  const key = newName()
  await pannier.dedup.claim(key, { fingerprint: 'a' })
  expect(await pannier.dedup.claim(key, { fingerprint: new Uint8Array([1]) })).toEqual({ claimed: false, outcome: 'mismatch' })
  expect((await pannier.dedup.claim(key, { fingerprint: 'a' })).outcome).toBe('inProgress')
  expect((await pannier.dedup.claim(key)).outcome).toBe('inProgress')
})

test('a batch is judged item by item, in order; each claim can be ended', async () => {
  const [a, b] = [newName(), newName()]
  const results = await pannier.dedup.claimBatch([a, { key: b, fingerprint: 'f' }, a], { inProgressTtl: '5s' })
  expect(results.map(({ outcome }) => outcome)).toEqual(['new', 'new', 'inProgress'])
  expect(mine(results[1] as ClaimResult).key).toBe(b)
  expect(await mine(results[1] as ClaimResult).complete('done')).toMatchObject({ outcome: 'completed' })
  expect((await pannier.dedup.claimBatch([a, b])).map(({ outcome }) => outcome)).toEqual(['inProgress', 'duplicate'])
  const many = Array.from({ length: 100 }, newName)
  expect((await pannier.dedup.claimBatch(many)).every(({ outcome }) => outcome === 'new')).toBe(true)
})

test('keys of any characters are distinct, and never patterns', async () => {
  const odd = ['a:b', 'a', '*', '?', '{x}', '{x', 'x}', '+', ' ', '\n', '\u0000', 'A', '__proto__', '😀'.repeat(128), 'x'.repeat(512), '%', "'", '"', '\\'].map(key => key)
  const once = await Promise.all(odd.map(key => pannier.dedup.claimOnce(key)))
  expect(once).toEqual(odd.map(() => true))
  expect(await Promise.all(odd.map(key => pannier.dedup.claimOnce(key)))).toEqual(odd.map(() => false))
})

test('namespaces are apart', async () => {
  const key = newName()
  const other = await sidecar.connect({ namespace: 'other' })
  expect(await pannier.dedup.claimOnce(key)).toBe(true)
  expect(await other.dedup.claimOnce(key)).toBe(true)
  expect(await other.dedup.claimOnce(key)).toBe(false)
})

test('run: once, with what it gave; the next one is told what was kept', async () => {
  const key = newName()
  let runs = 0
  const work = ({ fence, takeover }: { fence: number; takeover: boolean }): Promise<string> => {
    runs++
    expect(fence).toBeGreaterThan(0)
    expect(takeover).toBe(false)
    return Promise.resolve('sent')
  }
  expect(await pannier.dedup.run(key, work, { result: value => ({ value }) })).toEqual({ ran: true, outcome: 'completed', value: 'sent' })
  expect(await pannier.dedup.run(key, work)).toMatchObject({ ran: false, outcome: 'duplicate', result: { value: 'sent' } })
  expect(runs).toBe(1)
})

test('run: the claim is extended while the work runs; others wait', async () => {
  const key = newName()
  const running = pannier.dedup.run(key, async ({ signal }) => {
    await pause(4000)
    return signal.aborted
  }, { inProgressTtl: 1500 })
  await pause(2500)
  expect((await pannier.dedup.claim(key)).outcome).toBe('inProgress')
  expect(await running).toEqual({ ran: true, outcome: 'completed', value: false })
  expect((await pannier.dedup.claim(key)).outcome).toBe('duplicate')
})

test('run: work that throws gives the key back, and the error is its own', async () => {
  const key = newName()
  const failure = new Error('no such invoice')
  await expect(pannier.dedup.run(key, () => { throw failure })).rejects.toBe(failure)
  expect(await pannier.dedup.run(key, () => 2)).toMatchObject({ ran: true, value: 2 })
})

test('run: work that is done is done, also when its result cannot be kept', async () => {
  for (const result of [() => 'x'.repeat(5000), () => { throw new Error('no result') }]) {
    const key = newName()
    await expect(pannier.dedup.run(key, () => 'sent', { result })).rejects.toThrow()
    expect((await pannier.dedup.claim(key)).outcome).toBe('duplicate')
  }
})

test('run: a claim that is lost aborts the signal, and is no completion', async () => {
  const key = newName()
  const result = await pannier.dedup.run(key, async ({ signal, fence }) => {
    // Somebody gives the claim back behind its back.
    pannier.raw.dedup.releaseClaim({ namespace: pannier.namespace, requestId: 'x'.repeat(16), key, fence: BigInt(fence) }, error => expect(error).toBeNull())
    await new Promise(resolve => signal.addEventListener('abort', resolve))
    expect(signal.reason).toMatchObject({ reason: 'FENCED' })
    return 'late'
  }, { inProgressTtl: 1500 })
  expect(result).toEqual({ ran: true, outcome: 'leaseLost', value: 'late' })
})

test('options are checked', async () => {
  await expect(pannier.dedup.claim('k', { inProgresTtl: 5 } as object)).rejects.toThrow('did you mean `inProgressTtl`')
  await expect(pannier.dedup.claimOnce('k', { tll: 5 } as object)).rejects.toThrow('did you mean `ttl`')
  await expect(pannier.dedup.claim('', {})).rejects.toMatchObject({ reason: 'BAD_FIELD', field: 'key' })
  await expect(pannier.dedup.claim('k', { inProgressTtl: 0 })).rejects.toMatchObject({ reason: 'BAD_FIELD', field: 'in_progress_ttl' })
  await expect(pannier.dedup.claim('k', { timeout: 'soon' as '1s' })).rejects.toThrow(TypeError)
})
