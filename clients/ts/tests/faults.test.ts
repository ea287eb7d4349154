import { expect, test } from 'vitest'
import { UnavailableError, type Pannier } from '../src/index.js'
import { data, newName, one, open, pause, within } from './support/states.js'
import { type Sidecar, sidecarForEach } from './support/sidecar.js'

let sidecar: Sidecar
let pannier: Pannier
sidecarForEach(place => ({ sidecar, pannier } = place))

const value = (n: number) => ({ n, text: 'x'.repeat(n % 3000) })

// adiwajshing/Baileys#1404, #1245; oxidezap/whatsapp-rust PR#722
test('the sidecar is killed again and again: every acknowledged commit is there, every commit whole, in order', async () => {
  const session = newName()
  const bot = await open(pannier, session)
  let stop = false
  let next = 0
  const acknowledged: number[] = []
  const lost: unknown[] = []
  const writer = async (): Promise<void> => {
    while (!stop) {
      const n = next++
      await bot.state.keys
        .set(data({ session: { [`s${n}`]: value(n), newest: { n } }, 'pre-key': { [`p${n}`]: value(n), [`p${n - 3}`]: null } }))
        .then(() => acknowledged.push(n), (error: unknown) => lost.push(error))
      if (n % 5 === 0) void bot.saveCreds()
    }
  }
  const writers = Array.from({ length: 8 }, writer)
  for (let i = 0; i < 8; i++) {
    await pause(100 + Math.random() * 400)
    await sidecar.restart()
  }
  await pause(500)
  stop = true
  await within(60_000, Promise.all(writers))
  expect(lost).toEqual([])
  expect(bot.fatal).toEqual([])
  expect(acknowledged.length).toBe(next)
  await bot.close()
  const fresh = await open(pannier, session, { preload: [] })
  const ids = Array.from({ length: next }, (_, n) => n)
  const sessions = (await fresh.state.keys.get('session', ids.map(n => `s${n}`))) as Record<string, unknown>
  for (const n of ids) expect(sessions[`s${n}`]).toEqual(value(n))
  // In call order: the last call's value is the newest, and only the last pre-keys are left.
  expect(await one(fresh, 'session', 'newest')).toEqual({ n: next - 1 })
  expect((await fresh.listIds('pre-key')).sort()).toEqual([next - 1, next - 2, next - 3].map(n => `p${n}`).sort())
  await fresh.close()
})

test('the sidecar is stopped in order and comes back: the bot goes on with its lease', async () => {
  const session = newName()
  const bot = await open(pannier, session)
  await bot.state.keys.set(data({ session: { a: value(1) } }))
  const fence = (await pannier.sessions.info(session))?.fence ?? 0
  const exit = sidecar.exited()
  sidecar.signal('SIGTERM')
  const during = bot.state.keys.set(data({ session: { a: value(2) } }))
  await exit
  sidecar.run()
  await within(30_000, during)
  expect(await one(bot, 'session', 'a')).toEqual(value(2))
  // Attached again, under a new fence.
  await expect.poll(async () => (await pannier.sessions.info(session))?.fence, { timeout: 10_000 }).toBeGreaterThan(fence)
  expect(bot.fatal).toEqual([])
  await bot.close()
})

// observed: a read outage, and Baileys overwrites the session; row 50
test('the store is away for 2 s: a read only takes longer', async () => {
  const session = newName()
  const bot = await open(pannier, session, { preload: [] })
  await bot.state.keys.set(data({ session: { a: value(1) } }))
  await bot.close()
  const cold = await open(pannier, session, { preload: [] })
  await sidecar.valkey.kill9()
  const read = one(cold, 'session', 'a')
  await pause(2000)
  await sidecar.valkey.run()
  expect(await within(20_000, read)).toEqual(value(1))
  expect(cold.fatal).toEqual([])
  await cold.close()
})

test('the store is away for longer than 30 s: the read rejects, never "missing", and the state stops for good', async () => {
  const session = newName()
  const bot = await open(pannier, session, { preload: [] })
  await bot.state.keys.set(data({ session: { a: value(1) } }))
  await bot.close()
  const cold = await open(pannier, session, { preload: [] })
  await sidecar.valkey.kill9()
  const started = performance.now()
  await expect(one(cold, 'session', 'a')).rejects.toMatchObject({ retryable: true })
  expect(performance.now() - started).toBeGreaterThan(28_000)
  expect(performance.now() - started).toBeLessThan(36_000)
  expect(cold.fatal).toHaveLength(1)
  await expect(one(cold, 'session', 'b')).rejects.toBeTruthy()
  await sidecar.valkey.run()
  await cold.close()
  const again = await within(30_000, open(pannier, session))
  expect(await one(again, 'session', 'a')).toEqual(value(1))
  await again.close()
}, 120_000)

// fazer-ai/baileys-api#379; row 21
test('a sidecar that accepts and never answers: every call ends by its deadline, and it works again afterwards', async () => {
  const session = newName()
  const bot = await open(pannier, session)
  await bot.state.keys.set(data({ session: { a: value(1) } }))
  sidecar.signal('SIGSTOP')
  // All its threads have stopped by then.
  await pause(100)
  const started = performance.now()
  const took = (): number => performance.now() - started
  try {
    await expect(pannier.sessions.info(session)).rejects.toMatchObject({ reason: 'DEADLINE_EXCEEDED' })
    expect(took()).toBeLessThan(8000)
    await expect(bot.state.keys.set(data({ session: { a: value(2) } }))).rejects.toMatchObject({ retryable: true, outcomeUnknown: true })
    expect(took()).toBeLessThan(45_000)
    // What was known for certain is not any more: it is asked for.
    const read = one(bot, 'session', 'a')
    sidecar.signal('SIGCONT')
    expect([value(1), value(2)]).toContainEqual(await within(20_000, read))
  } finally {
    sidecar.signal('SIGCONT')
  }
  await within(20_000, bot.state.keys.set(data({ session: { a: value(3) } })))
  expect(await one(bot, 'session', 'a')).toEqual(value(3))
  expect(bot.fatal).toEqual([])
  await bot.close()
}, 120_000)

test('close ends in its time, also when the sidecar never answers', async () => {
  const bot = await open(pannier, newName())
  sidecar.signal('SIGSTOP')
  const pending = bot.state.keys.set(data({ session: { a: value(1) } }))
  const outcome = pending.catch((error: unknown) => error)
  const started = performance.now()
  await bot.close({ timeout: 1000 })
  await pannier.close({ timeout: 1000 })
  expect(performance.now() - started).toBeLessThan(4500)
  expect(await within(1000, outcome)).toMatchObject({ reason: 'CLOSED', outcomeUnknown: true })
})

test('connect waits for a sidecar that comes later', async () => {
  await sidecar.kill9()
  const waiting = sidecar.connect({ readyTimeout: '20s' })
  await pause(500)
  sidecar.run()
  const later = await within(20_000, waiting)
  expect(later.status).toBe('ready')
  expect(later.raw.session).toBeDefined()
})

test('without a sidecar, unary calls say so within their time', async () => {
  await sidecar.kill9()
  const started = performance.now()
  await expect(pannier.sessions.info('x')).rejects.toBeInstanceOf(UnavailableError)
  expect(performance.now() - started).toBeLessThan(7000)
})
