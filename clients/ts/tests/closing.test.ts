// States and connections that are closed, and others that go on.
import { expect, test } from 'vitest'
import { ClosedError, FencedError, type Pannier } from '../src/index.js'
import { data, newName, one, open, pause, within } from './support/states.js'
import { type Sidecar, sidecarForEach } from './support/sidecar.js'

let sidecar: Sidecar
let pannier: Pannier
sidecarForEach(place => ({ sidecar, pannier } = place))

const value = (n: number) => ({ n })
const counts = async (session: string) => (await pannier.sessions.info(session))?.counts.map(count => count.type)

test('a closed state clears nothing and says so, be the session open in another state or not', async () => {
  const session = newName()
  const closed = await open(pannier, session)
  const live = await open(pannier, session)
  await closed.state.keys.set(data({ session: { a: value(1) } }))
  await closed.close()
  for (const call of [() => closed.clear(), () => closed.state.keys.clear?.(), () => closed.onLoggedOut(401)]) {
    await expect(call()).rejects.toBeInstanceOf(ClosedError)
  }
  expect(await closed.onLoggedOut(428)).toBe(false)
  await live.state.keys.set(data({ session: { b: value(1) } }))
  expect(await one(live, 'session', 'a')).toEqual(value(1))
  await live.close()
  await expect(live.clear()).rejects.toBeInstanceOf(ClosedError)
  expect(await counts(session)).toEqual(['creds', 'session'])
  // Nor is it cleared by a state of a life before.
  const before = await open(pannier, session)
  await before.clear()
  const after = await open(pannier, session)
  await after.state.keys.set(data({ session: { c: value(1) } }))
  await before.clear()
  expect(await before.onLoggedOut(401)).toBe(true)
  expect(await one(after, 'session', 'c')).toEqual(value(1))
})

test('a state that lost its session clears nothing, and says why', async () => {
  const session = newName()
  const bot = await open(pannier, session)
  await bot.state.keys.set(data({ session: { a: value(1) } }))
  await pannier.sessions.breakLease(session)
  await expect.poll(() => bot.fatal.length).toBe(1)
  await expect(bot.onLoggedOut(401)).rejects.toBeInstanceOf(FencedError)
  await expect(bot.clear()).rejects.toBeInstanceOf(FencedError)
  expect(await counts(session)).toEqual(['creds', 'session'])
  await bot.close()
  await expect(bot.clear()).rejects.toBeInstanceOf(ClosedError)
})

test('two connections of a process share a session; closing the one it was opened through leaves the other at work', async () => {
  const session = newName()
  const other = await sidecar.connect()
  const first = await open(other, session)
  const second = await open(pannier, session)
  expect(second.state.creds).toBe(first.state.creds)
  const during = Array.from({ length: 50 }, (_, n) => second.state.keys.set(data({ session: { [`s${n}`]: value(n) } })))
  await other.close()
  await expect(first.state.keys.set(data({ session: { a: value(1) } }))).rejects.toBeInstanceOf(ClosedError)
  await expect(first.clear()).rejects.toBeInstanceOf(ClosedError)
  await within(5000, Promise.all(during))
  await second.state.keys.set(data({ session: { a: value(2) } }))
  expect(await one(second, 'session', 's49')).toEqual(value(49))
  expect([first.fatal, second.fatal]).toEqual([[], []])
  expect((await pannier.sessions.info(session))?.lease?.live).toBe(true)
  await pannier.close()
  const fresh = await open(await sidecar.connect(), session, { onHeld: 'fail', owner: 'somebody else' })
  expect(await one(fresh, 'session', 'a')).toEqual(value(2))
})

test('the one that it was opened through is closed while it opens: the other gets it', async () => {
  const session = newName()
  const other = await sidecar.connect()
  const first = open(other, session).catch((error: unknown) => error)
  const second = open(pannier, session)
  await other.close()
  const bot = await within(10_000, second)
  await bot.state.keys.set(data({ session: { a: value(1) } }))
  expect(bot.fatal).toEqual([])
  const gone = await first
  if (!(gone instanceof ClosedError)) expect(gone).toMatchObject({ fatal: [] })
})

test('after its state was closed in order, the connection it rode on may go as well', async () => {
  const session = newName()
  const other = await sidecar.connect()
  const first = await open(other, session)
  const second = await open(pannier, session)
  await first.close()
  await other.close()
  await second.state.keys.set(data({ session: { a: value(1) } }))
  expect(second.fatal).toEqual([])
  await second.close()
})

test.each(['the store', 'the sidecar'])('a connection is closed while %s is away: no fatal, everything ends in its time', async what => {
  const session = newName()
  await (await open(pannier, session)).close()
  // Not new, so not known to be empty.
  const bot = await open(pannier, session, { preload: [] })
  await bot.state.keys.set(data({ session: { a: value(1) } }))
  if (what === 'the store') await sidecar.valkey.kill9()
  else await sidecar.kill9()
  const calls = [one(bot, 'session', 'unknown'), bot.state.keys.set(data({ session: { a: value(2) } })), bot.saveCreds(), bot.listIds('session')]
  const outcomes = Promise.allSettled(calls)
  await pause(300)
  const started = performance.now()
  await pannier.close({ timeout: 1000 })
  expect(performance.now() - started).toBeLessThan(1500)
  for (const outcome of await within(2000, outcomes)) expect(outcome).toMatchObject({ status: 'rejected', reason: { reason: 'CLOSED' } })
  await pause(100)
  expect(bot.fatal).toEqual([])
  if (what === 'the store') await sidecar.valkey.run()
})

test('close keeps to its time, flush included', async () => {
  const bot = await open(pannier, newName())
  await sidecar.valkey.kill9()
  void bot.saveCreds()
  const started = performance.now()
  await bot.close({ timeout: 1000 })
  expect(performance.now() - started).toBeLessThan(1500)
  await sidecar.valkey.run()
})

test('listeners of a closed state are gone; those of another state stay, be they the same function', async () => {
  const session = newName()
  const base = await open(pannier, session)
  let calls = 0
  const listener = (): void => void calls++
  for (let n = 0; n < 200; n++) {
    const state = await open(pannier, session)
    state.on('fatal', listener)
    await state.close()
  }
  base.on('fatal', listener)
  const late: string[] = []
  const closed = await open(pannier, session)
  closed.on('late', ({ call }) => late.push(call))
  closed.on('fatal', listener)
  await closed.close()
  // This one is its own affair.
  await expect(closed.saveCreds()).rejects.toBeInstanceOf(ClosedError)
  expect(late).toEqual(['saveCreds'])
  expect(base.events).toEqual([])
  await pannier.sessions.breakLease(session)
  await expect.poll(() => base.fatal.length).toBe(1)
  expect(calls).toBe(1)
  await base.close()
})

test('closing while sessions are being opened: they end, and the process does not', async () => {
  const uncaught: unknown[] = []
  const note = (error: unknown): void => void uncaught.push(error)
  process.on('uncaughtException', note)
  try {
    for (let n = 0; n < 20; n++) {
      const over = await sidecar.connect()
      const opening = open(over, newName()).catch((error: unknown) => error)
      await over.close()
      expect(await within(2000, opening)).toBeInstanceOf(ClosedError)
    }
    await pause(100)
    expect(uncaught).toEqual([])
  } finally {
    process.off('uncaughtException', note)
  }
})
