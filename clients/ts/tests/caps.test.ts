import { expect, test } from 'vitest'
import type { CapPolicy, ConsumeResult, Pannier } from '../src/index.js'
import { newName, pause } from './support/states.js'
import { type Sidecar, sidecarForAll } from './support/sidecar.js'

let sidecar: Sidecar
let pannier: Pannier
sidecarForAll(place => ({ sidecar, pannier } = place))

const send = (): { sendId: string } => ({ sendId: `send${newName()}` })

type RuleOf = CapPolicy extends infer One ? (One extends unknown ? Omit<One, 'name'> : never) : never

async function policy(rule: RuleOf): Promise<string> {
  const name = `policy${newName()}`
  await pannier.caps.setPolicy({ name, ...rule })
  return name
}

const outcomes = (results: ConsumeResult[]): Record<string, number> =>
  results.reduce<Record<string, number>>((counts, { outcome }) => ({ ...counts, [outcome]: (counts[outcome] ?? 0) + 1 }), {})

const RULES: [string, RuleOf, { waits: boolean }][] = [
  ['fixed', { algorithm: 'fixed', limit: 3, window: '400d' }, { waits: false }],
  ['a civil day', { algorithm: 'fixed', limit: 3, timeZone: 'America/Mexico_City' }, { waits: false }],
  ['rolling', { algorithm: 'rolling', limit: 3, window: 4000 }, { waits: true }],
  ['gcra', { algorithm: 'gcra', period: 2500, burst: 3 }, { waits: true }],
]

for (const [title, rule, { waits }] of RULES) {
  test(`${title}: as many as it says, a denial costs nothing, and after retryAfterMs there is room`, async () => {
    const name = await policy(rule)
    for (let used = 1; used <= 3; used++) {
      const result = await pannier.caps.consume({}, name, send())
      if (!result.allowed) return expect.fail(result.outcome)
      expect(result).toMatchObject({ outcome: 'allowed', state: 'committed', failedOpen: false, reservedUntil: undefined })
      expect(result.usage).toHaveLength(1)
      expect(result.usage[0]).toMatchObject({ policy: name, limit: 3, used, remaining: 3 - used })
      expect(result.usage[0]?.resetAt).toBeInstanceOf(Date)
    }
    const refused = send()
    let denied = await pannier.caps.consume({}, name, refused)
    for (let i = 0; i < 10; i++) denied = await pannier.caps.consume({}, name, refused)
    if (denied.outcome !== 'denied') return expect.fail(denied.outcome)
    expect(denied.deniedBy).toBe(name)
    expect(denied.retryAfterMs).toBeGreaterThanOrEqual(1)
    expect((await pannier.caps.peek({}, name)).policies[0]).toMatchObject({ used: 3, remaining: 0, never: false })
    if (!waits) return
    await pause(denied.retryAfterMs)
    expect((await pannier.caps.consume({}, name, refused)).outcome).toBe('allowed')
  })
}

test('unique: different recipients, not sends; whoever wrote to us is free', async () => {
  const name = await policy({ algorithm: 'unique', limit: 2 })
  const [a, b, c] = ['a', 'b', 'c'].map(who => who + newName()) as [string, string, string]
  for (const recipient of [a, b, a, a, b]) expect((await pannier.caps.consume({ recipient }, name, send())).outcome).toBe('allowed')
  expect(await pannier.caps.consume({ recipient: c }, name, send())).toMatchObject({ outcome: 'denied', deniedBy: name })
  const until = await pannier.caps.noteInbound(c)
  expect(until.getTime() - Date.now()).toBeGreaterThan(23.9 * 3_600_000)
  expect(until.getTime() - Date.now()).toBeLessThan(24.1 * 3_600_000)
  expect((await pannier.caps.peek({ recipient: c }, name)).serviceWindowUntil).toEqual(until)
  expect((await pannier.caps.consume({ recipient: c }, name, send())).outcome).toBe('allowed')
  expect((await pannier.caps.peek({ recipient: c }, name)).policies[0]).toMatchObject({ limit: 2, used: 2 })
  const free = await policy({ algorithm: 'unique', limit: Infinity })
  expect(await pannier.caps.consume({ recipient: a }, free, send())).toMatchObject({ outcome: 'allowed', usage: [{ limit: Infinity, used: 1, remaining: Infinity }] })
})

test('n: more than there ever can be is never; all of it at once is allowed', async () => {
  const name = await policy({ algorithm: 'gcra', period: '1h', burst: 10 })
  expect(await pannier.caps.consume({}, name, { ...send(), n: 11 })).toEqual({ allowed: false, outcome: 'never', deniedBy: name })
  expect(await pannier.caps.consume({}, name, { ...send(), n: 10 })).toMatchObject({ allowed: true, usage: [{ used: 10, remaining: 0 }] })
})

test('one send counts once: replayed with its first answer; used for something else it is a mismatch', async () => {
  const name = await policy({ algorithm: 'fixed', limit: 100, window: '1h', scope: 'recipient' })
  const recipient = newName()
  const one = send()
  const results = await Promise.all(Array.from({ length: 50 }, () => pannier.caps.consume({ recipient }, name, one)))
  expect(outcomes(results)).toEqual({ allowed: 1, replayed: 49 })
  for (const result of results) expect(result).toMatchObject({ allowed: true, state: 'committed', usage: [{ used: 1, remaining: 99 }] })
  for (const other of [{ ...one, n: 2 }, { ...one, reserve: true as const }]) {
    expect(await pannier.caps.consume({ recipient }, name, other)).toEqual({ allowed: false, outcome: 'mismatch' })
  }
  expect(await pannier.caps.consume({ recipient: newName() }, name, one)).toEqual({ allowed: false, outcome: 'mismatch' })
  expect((await pannier.caps.peek({ recipient }, name)).policies[0]?.used).toBe(1)
})

test('500 at once of a cap of 100: exactly 100', async () => {
  for (const rule of [
    { algorithm: 'fixed', limit: 100, window: '400d' }, { algorithm: 'rolling', limit: 100, window: '1h' }, { algorithm: 'gcra', period: '1h', burst: 100 },
  ] as const) {
    const name = await policy(rule)
    const results = await Promise.all(Array.from({ length: 500 }, () => pannier.caps.consume({}, name, { ...send(), timeout: '20s' })))
    expect(outcomes(results)).toEqual({ allowed: 100, denied: 400 })
    expect((await pannier.caps.peek({}, name)).policies[0]?.used).toBe(100)
  }
})

test('several policies: all or nothing', async () => {
  const many = await policy({ algorithm: 'fixed', limit: 5, window: '1h' })
  const few = await policy({ algorithm: 'rolling', limit: 1, window: '1h', scope: 'recipient' })
  const recipient = newName()
  const first = await pannier.caps.consume({ recipient }, [many, few], send())
  expect(first.allowed && first.usage.map(({ policy: name, used }) => [name, used])).toEqual([[many, 1], [few, 1]])
  expect(await pannier.caps.consume({ recipient }, [many, few], send())).toMatchObject({ outcome: 'denied', deniedBy: few })
  expect((await pannier.caps.peek({}, many)).policies[0]?.used).toBe(1)
})

test('scopes count apart', async () => {
  const name = await policy({ algorithm: 'fixed', limit: 1, window: '1h', scope: 'pair' })
  const [a, b, x, y] = [newName(), newName(), newName(), newName()]
  for (const [sender, recipient] of [[a, x], [a, y], [b, x]] as [string, string][]) {
    expect((await pannier.caps.consume({ sender, recipient }, name, send())).outcome).toBe('allowed')
    expect((await pannier.caps.consume({ sender, recipient }, name, send())).outcome).toBe('denied')
  }
  await expect(pannier.caps.consume({ recipient: x }, name, send())).rejects.toMatchObject({ reason: 'BAD_FIELD', field: 'sender' })
})

test('a reservation: confirmed it stays, refunded or lapsed it is free', async () => {
  const name = await policy({ algorithm: 'fixed', limit: 2, window: '1h' })
  const used = async (): Promise<number | undefined> => (await pannier.caps.peek({}, name)).policies[0]?.used
  const kept = send()
  const reserved = await pannier.caps.consume({}, name, { ...kept, reserve: '10s' })
  expect(reserved).toMatchObject({ outcome: 'allowed', state: 'reserved' })
  expect(reserved.allowed && reserved.reservedUntil && reserved.reservedUntil.getTime() - Date.now()).toBeGreaterThan(8000)
  expect(await pannier.caps.confirm(kept.sendId)).toEqual({ outcome: 'confirmed' })
  expect(await pannier.caps.confirm(kept.sendId)).toEqual({ outcome: 'confirmed' })
  expect(await pannier.caps.consume({}, name, { ...kept, reserve: '10s' })).toMatchObject({ outcome: 'replayed', state: 'committed' })
  expect(await used()).toBe(1)

  const lapsing = send()
  await pannier.caps.consume({}, name, { ...lapsing, reserve: 1500 })
  expect(await used()).toBe(2)
  await pause(1550)
  expect(await used()).toBe(1)
  expect(await pannier.caps.confirm(lapsing.sendId)).toEqual({ outcome: 'lapsed' })
  expect(await pannier.caps.refund(lapsing.sendId)).toEqual({ outcome: 'lapsed' })

  expect(await pannier.caps.refund(kept.sendId)).toEqual({ outcome: 'refunded' })
  expect(await pannier.caps.refund(kept.sendId)).toEqual({ outcome: 'refunded' })
  expect(await used()).toBe(0)
  expect(await pannier.caps.confirm(send().sendId)).toEqual({ outcome: 'unknown' })
  expect(await pannier.caps.refund(send().sendId)).toEqual({ outcome: 'unknown' })
  // The id is free again.
  expect((await pannier.caps.consume({}, name, kept)).outcome).toBe('allowed')
})

test('peek writes nothing, and tells when the next ones could go', async () => {
  const name = await policy({ algorithm: 'gcra', period: '10s', burst: 2 })
  const before = await sidecar.valkey.client.dbsize()
  for (let i = 0; i < 100; i++) await pannier.caps.peek({}, name)
  expect(await sidecar.valkey.client.dbsize()).toBe(before)
  const { policies: [fresh] } = await pannier.caps.peek({}, name, { n: 2, unit: 3 })
  expect(fresh).toMatchObject({ policy: name, limit: 2, used: 0, remaining: 2, retryAfterMs: 0, never: false, unitAfterMs: 10_000 })
  expect((await pannier.caps.peek({}, name, { n: 3 })).policies[0]).toMatchObject({ never: true })
})

test('policies: made, changed, read, listed, taken away', async () => {
  const own = await sidecar.connect({ namespace: 'policies' })
  const made = await own.caps.setPolicy({ name: 'b', algorithm: 'fixed', limit: 2, timeZone: 'Europe/Berlin', scope: 'recipient', failOpen: true })
  expect(made).toMatchObject({ created: true, policy: { name: 'b', algorithm: 'fixed', limit: 2, timeZone: 'Europe/Berlin', scope: 'recipient', failOpen: true, fromConfig: false } })
  const changed = await own.caps.setPolicy({ name: 'b', algorithm: 'fixed', limit: 3, timeZone: 'Europe/Berlin', scope: 'recipient' })
  expect(changed.created).toBe(false)
  expect(changed.policy.revision).toBeGreaterThan(made.policy.revision)
  await own.caps.setPolicy({ name: 'a', preset: 'metaPair' })
  expect(await own.caps.getPolicy('b')).toEqual(changed.policy)
  const { policies, corrupt } = await own.caps.listPolicies()
  expect(policies.map(({ name }) => name)).toEqual(['a', 'b'])
  expect(corrupt).toBe(0)
  expect(policies[0]).toMatchObject({ scope: 'pair', algorithm: 'gcra', period: 6000, burst: 45 })
  expect(await own.caps.deletePolicy('b', { revision: made.policy.revision })).toBe(false)
  expect(await own.caps.deletePolicy('b', { revision: changed.policy.revision })).toBe(true)
  expect(await own.caps.deletePolicy('b')).toBe(false)
  await expect(own.caps.getPolicy('b')).rejects.toMatchObject({ name: 'NotFoundError', reason: 'POLICY_NOT_FOUND' })
  await expect(own.caps.consume({}, 'b', send())).rejects.toMatchObject({ name: 'NotFoundError', reason: 'POLICY_NOT_FOUND' })
})

test('the presets are what Meta publishes', async () => {
  const expected = {
    metaThroughput: { scope: 'sender', algorithm: 'rolling', limit: 80, window: 1000 },
    metaPair: { scope: 'pair', algorithm: 'gcra', period: 6000, burst: 45 },
    metaTier250: { scope: 'namespace', algorithm: 'unique', limit: 250, window: 86_400_000 },
    metaTier2k: { algorithm: 'unique', limit: 2000 },
    metaTier10k: { algorithm: 'unique', limit: 10_000 },
    metaTier100k: { algorithm: 'unique', limit: 100_000 },
    metaTierUnlimited: { algorithm: 'unique', limit: Infinity },
  } as const
  for (const [preset, rule] of Object.entries(expected)) {
    const { policy: stored } = await pannier.caps.setPolicy({ name: newName(), preset: preset as keyof typeof expected })
    expect(stored).toMatchObject(rule)
  }
})

test('a tier that is raised keeps what was counted', async () => {
  const name = newName()
  await pannier.caps.setPolicy({ name, algorithm: 'unique', limit: 1 })
  const [a, b] = [newName(), newName()]
  expect((await pannier.caps.consume({ recipient: a }, name, send())).outcome).toBe('allowed')
  expect((await pannier.caps.consume({ recipient: b }, name, send())).outcome).toBe('denied')
  await pannier.caps.setPolicy({ name, algorithm: 'unique', limit: 2 })
  expect(await pannier.caps.consume({ recipient: b }, name, send())).toMatchObject({ outcome: 'allowed', usage: [{ used: 2 }] })
})

test('ids of any characters are distinct, and never patterns', async () => {
  const name = await policy({ algorithm: 'fixed', limit: 1, window: '1h', scope: 'recipient' })
  const odd = ['a:b', 'a', '*', '?', '{x}', '+', ' ', '\n', '\u0000', '__proto__', '😀'.repeat(128), 'x'.repeat(512)]
  const results = await Promise.all(odd.map(id => pannier.caps.consume({ recipient: id }, name, { sendId: id })))
  expect(outcomes(results)).toEqual({ allowed: odd.length })
})

test('options are checked', async () => {
  const name = await policy({ algorithm: 'fixed', limit: 1, window: '1h' })
  await expect(pannier.caps.consume({ recepient: 'x' } as object, name, send())).rejects.toThrow('did you mean `recipient`')
  await expect(pannier.caps.consume({}, name, { sendID: 'x' } as unknown as { sendId: string })).rejects.toThrow('did you mean `sendId`')
  await expect(pannier.caps.consume({}, [name, name], send())).rejects.toMatchObject({ reason: 'BAD_FIELD', field: 'policies[1]' })
  await expect(pannier.caps.consume({}, name, { ...send(), n: -1 })).rejects.toMatchObject({ reason: 'BAD_FIELD', field: 'n' })
  await expect(pannier.caps.consume({}, name, {} as { sendId: string })).rejects.toMatchObject({ reason: 'BAD_FIELD', field: 'send_id' })
  await expect(pannier.caps.setPolicy({ name: 'x', algorithm: 'sliding', limit: 1 } as unknown as CapPolicy)).rejects.toMatchObject({ field: 'policy.algorithm' })
})
