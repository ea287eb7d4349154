import { expect, test } from 'vitest'
import { usePannierAuthState } from '../src/baileys/index.js'
import { FencedError, SessionHeldError, StaleStateError, type Pannier } from '../src/index.js'
import { data, newName, one, open, pause, within } from './support/states.js'
import { type Sidecar, sidecarForAll } from './support/sidecar.js'

let sidecar: Sidecar
let pannier: Pannier
sidecarForAll(place => ({ sidecar, pannier } = place))

const value = (n: number) => ({ n })

// fazer-ai/baileys-api#315, #331, #332; openclaw#72621
test('after a take-over the first owner is told, its writes are refused, and nothing of them is stored', async () => {
  const session = newName()
  const first = await open(pannier, session, { owner: 'first' })
  await first.state.keys.set(data({ session: { a: value(1) } }))
  const second = await open(pannier, session, { owner: 'second', onHeld: 'takeOver' })
  await expect(first.state.keys.set(data({ session: { a: value(2), b: value(2) } }))).rejects.toBeInstanceOf(FencedError)
  await expect.poll(() => first.fatal.length).toBe(1)
  expect(first.fatal[0]).toBeInstanceOf(FencedError)
  await expect(one(first, 'session', 'a')).rejects.toBeInstanceOf(FencedError)
  await expect(first.saveCreds()).rejects.toBeInstanceOf(FencedError)
  expect(await one(second, 'session', 'a')).toEqual(value(1))
  expect(await one(second, 'session', 'b')).toBeUndefined()
  await first.close()
  expect(await one(second, 'session', 'a')).toEqual(value(1))
  await second.state.keys.set(data({ session: { a: value(3) } }))
  await second.close()
})

// fazer-ai#312; row 24
test('the same session twice in one process is one handle, counted', async () => {
  const session = newName()
  const [one1, two] = await Promise.all([open(pannier, session), open(pannier, session)])
  expect(two.state.creds).toBe(one1.state.creds)
  await one1.state.keys.set(data({ session: { a: value(1) } }))
  expect(await one(two, 'session', 'a')).toEqual(value(1))
  await one1.close()
  await two.state.keys.set(data({ session: { a: value(2) } }))
  expect((await pannier.sessions.info(session))?.lease?.live).toBe(true)
  await two.close()
  expect((await pannier.sessions.info(session))?.lease?.live ?? false).toBe(false)
})

test('a restart at once, as after pairing (515), sees the save that nobody awaited', async () => {
  const session = newName()
  const before = await open(pannier, session)
  before.state.creds.nextPreKeyId = 4242
  void before.saveCreds()
  const after = await open(pannier, session)
  expect(after.state.creds.nextPreKeyId).toBe(4242)
  void before.saveCreds()
  void before.close()
  const closed = after.close()
  const again = await open(pannier, session)
  await closed
  expect(again.state.creds.nextPreKeyId).toBe(4242)
  await again.close()
})

// fazer-ai#330; row 25
test('a clear by a former owner does nothing to the rightful one', async () => {
  const session = newName()
  const former = await open(pannier, session, { owner: 'former' })
  const rightful = await open(pannier, session, { owner: 'rightful', onHeld: 'takeOver' })
  await rightful.state.keys.set(data({ session: { a: value(1) } }))
  await former.clear().catch(() => {})
  expect(await one(rightful, 'session', 'a')).toEqual(value(1))
  const there = await pannier.sessions.get(session, [{ type: 'session', ids: ['a'] }])
  expect(there.records).toHaveLength(1)
  await rightful.close()
})

// openclaw#119584; row 33
test('a second pairing of one session is refused, waits, or takes over, as asked', async () => {
  const session = newName()
  const first = await open(pannier, session, { owner: 'first' })
  await expect(open(pannier, session, { owner: 'second', onHeld: 'fail' })).rejects.toMatchObject({ name: 'SessionHeldError', owner: 'first' })
  await expect(open(pannier, session, { owner: 'second', onHeld: 'wait', waitTimeout: '500ms' })).rejects.toBeInstanceOf(SessionHeldError)
  const lines: string[] = []
  const logger = { warn: (fields: object, message: string) => lines.push(message + JSON.stringify(fields)), error: () => {} }
  const waiting = usePannierAuthState(pannier, session, { owner: 'second', logger })
  await expect.poll(() => lines.join()).toMatch(/another owner holds this session.*first/)
  await first.close()
  const second = await within(10_000, waiting)
  expect(second.state.creds.noiseKey).toEqual(first.state.creds.noiseKey)
  await second.close()
})

test('the same owner gets its session at once, as a process that crashed and came back', async () => {
  const session = newName()
  const other = await sidecar.connect({ address: sidecar.address.replace('unix:', 'unix://') })
  const before = await open(pannier, session, { owner: 'same' })
  await before.state.keys.set(data({ session: { a: value(1) } }))
  // Another connection of this process, to the same address: still one handle.
  const shared = await open(other, session, { owner: 'same' })
  expect(shared.state.creds).toBe(before.state.creds)
  await before.close()
  await shared.close()
})

test('a store that is behind what was acknowledged is StaleStateError', async () => {
  const session = newName()
  const bot = await open(pannier, session)
  await bot.state.keys.set(data({ session: { a: value(1) } }))
  const { revision } = bot
  expect(revision).toBeGreaterThan(0)
  await bot.close()
  await expect(open(pannier, session, { minRevision: revision + 1 })).rejects.toBeInstanceOf(StaleStateError)
  await (await open(pannier, session, { minRevision: revision })).close()
})

test('the lease is not renewed: suspend, and resume when it is', async () => {
  const session = newName()
  const bot = await open(pannier, session, { leaseTtl: '6s' })
  await pause(4500)
  expect(bot.events).toEqual([])
  sidecar.signal('SIGSTOP')
  try {
    await expect.poll(() => bot.events, { timeout: 15_000 }).toContain('suspend')
    expect(bot.suspended).toBe(true)
  } finally {
    sidecar.signal('SIGCONT')
  }
  await expect.poll(() => bot.suspended, { timeout: 15_000 }).toBe(false)
  expect(bot.events).toContain('resume')
  expect(bot.fatal).toEqual([])
  await bot.state.keys.set(data({ session: { a: value(1) } }))
  await bot.close()
})

test('an admin breaks the lease, or deletes the session: fatal, and no write gets through', async () => {
  for (const how of ['breakLease', 'delete'] as const) {
    const session = newName()
    const bot = await open(pannier, session)
    await bot.state.keys.set(data({ session: { a: value(1) } }))
    expect(await pannier.sessions[how](session)).toBe(true)
    await expect.poll(() => bot.fatal.length, { timeout: 10_000 }).toBe(1)
    await expect(bot.state.keys.set(data({ session: { a: value(2) } }))).rejects.toBeInstanceOf(FencedError)
    const { records } = await pannier.sessions.get(session, [{ type: 'session', ids: ['a'] }]).catch(() => ({ records: [] }))
    expect(records).toHaveLength(how === 'delete' ? 0 : 1)
    await bot.close()
  }
})
