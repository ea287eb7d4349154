import { expect, test } from 'vitest'
import { ExhaustedError, type Pannier } from '../src/index.js'
import { data, many, messagesDuring, newName, one, open, pause, within } from './support/states.js'
import { type Sidecar, sidecarForAll } from './support/sidecar.js'

let sidecar: Sidecar
let pannier: Pannier
sidecarForAll(place => ({ sidecar, pannier } = place))

const session = (n: number) => ({ _sessions: { [`key${n}`]: { chain: 'x'.repeat(500) } }, version: 'v1' })
const devices = Array.from({ length: 300 }, (_, i) => `49${i}_1.0`)

// Baileys PR#1858, #1887, #1697
test('a group send to 300 devices is two messages at first, and only the commit after that', async () => {
  const name = newName()
  const bot = await open(pannier, name)
  await bot.state.keys.set(data({ session: Object.fromEntries(devices.map((id, n) => [id, session(n)])) }))
  await bot.close()
  // Nothing preloaded, nothing cached: the worst case.
  const cold = await open(pannier, name, { preload: [] })
  const send = async (): Promise<void> => {
    await cold.state.keys.get('session', devices)
    const touched: Record<string, unknown> = {}
    await Promise.all(devices.map(async id => (touched[id] = await one(cold, 'session', id))))
    await cold.state.keys.set(data({ session: touched }))
  }
  expect(await messagesDuring(send)).toBe(2)
  expect(await messagesDuring(send)).toBe(1)
  await cold.close()
  // 300 single reads of one tick are one Get.
  const colder = await open(pannier, name, { preload: [] })
  expect(await messagesDuring(() => Promise.all(devices.map(id => one(colder, 'session', id))))).toBe(1)
  await colder.close()
  // With what is loaded at the opening, there is nothing to ask.
  const warm = await open(pannier, name)
  expect(await messagesDuring(async () => expect(Object.keys(await many(warm, 'session', devices))).toHaveLength(300))).toBe(0)
  await warm.close()
})

test('a missing record is asked for once at most', async () => {
  const name = newName()
  const bot = await open(pannier, name, { preload: [] })
  // A new session is known to be empty.
  expect(await messagesDuring(async () => expect(await many(bot, 'lid-mapping', ['1', '2'])).toEqual({}))).toBe(0)
  await bot.close()
  const again = await open(pannier, name, { preload: [] })
  expect(await messagesDuring(() => one(again, 'lid-mapping', '1'))).toBe(1)
  expect(await messagesDuring(() => one(again, 'lid-mapping', '1'))).toBe(0)
  await again.state.keys.set({ 'lid-mapping': { '1': 'x' } })
  expect(await one(again, 'lid-mapping', '1')).toBe('x')
  await again.close()
})

// Baileys PR#2574 (H6); row 10
test('when the store refuses a set, gets give the old value, before and after', async () => {
  const bot = await open(pannier, newName())
  await bot.state.keys.set(data({ session: { a: session(1) } }))
  await sidecar.valkey.client.config('SET', 'maxmemory', '1mb')
  try {
    const refused = bot.state.keys.set(data({ session: { a: session(2), b: session(2) } }))
    const meanwhile = many(bot, 'session', ['a', 'b'])
    await expect(refused).rejects.toBeInstanceOf(ExhaustedError)
    expect(await meanwhile).toEqual({ a: session(1) })
    for (let i = 0; i < 3; i++) expect(await many(bot, 'session', ['a', 'b'])).toEqual({ a: session(1) })
  } finally {
    await sidecar.valkey.client.config('SET', 'maxmemory', '0')
  }
  await bot.state.keys.set(data({ session: { a: session(3) } }))
  expect(await many(bot, 'session', ['a', 'b'])).toEqual({ a: session(3) })
  await bot.close()
})

// Baileys PR#2593; row 20
test('a set that takes long holds up no get of another id', async () => {
  const bot = await open(pannier, newName())
  await bot.state.keys.set(data({ session: { a: session(1), b: session(1) } }))
  sidecar.valkey.signal('SIGSTOP')
  try {
    const slow = bot.state.keys.set(data({ session: { a: session(2) } }))
    const started = performance.now()
    expect(await messagesDuring(async () => expect(await one(bot, 'session', 'b')).toEqual(session(1)))).toBe(0)
    expect(performance.now() - started).toBeLessThan(1000)
    let seen = false
    const waiting = one(bot, 'session', 'a').then(value => {
      seen = true
      return value
    })
    await pause(300)
    expect(seen).toBe(false)
    sidecar.valkey.signal('SIGCONT')
    await within(20_000, slow)
    expect(await waiting).toEqual(session(2))
  } finally {
    sidecar.valkey.signal('SIGCONT')
  }
  await bot.close()
})

// WhiskeySockets/Baileys#1377; row 19
test('the cache keeps to its bytes, however much is read', async () => {
  const name = newName()
  const bot = await open(pannier, name, { cacheBytes: 100_000 })
  const ids = Array.from({ length: 2000 }, (_, i) => `s${i}`)
  await bot.state.keys.set(data({ session: Object.fromEntries(ids.map((id, n) => [id, session(n)])) }))
  expect(Object.keys(await many(bot, 'session', ids))).toHaveLength(2000)
  // Not all of it can be in 100 kB; what was read last is.
  expect(await messagesDuring(async () => expect(await one(bot, 'session', 's0')).toEqual(session(0)))).toBe(1)
  expect(await messagesDuring(async () => expect(await one(bot, 'session', 's0')).toEqual(session(0)))).toBe(0)
  // What does not fit is not taken for missing.
  expect(await one(bot, 'session', 's1')).toEqual(session(1))
  await bot.close()
})

test('somebody else writes: the cache is dropped', async () => {
  const name = newName()
  const bot = await open(pannier, name)
  await bot.state.keys.set(data({ session: { a: session(1) } }))
  const fence = (await pannier.sessions.info(name))?.lease?.fence ?? 0
  await pannier.sessions.commit(name, { fence, puts: [{ type: 'session', id: 'a', kind: 2, value: Buffer.from('{"other":1}') }] })
  await bot.state.keys.set(data({ session: { b: session(2) } }))
  expect(bot.events).toContain('conflict')
  expect(await one(bot, 'session', 'a')).toEqual({ other: 1 })
  await bot.close()
})

// Baileys#2811; PR#2587; rows 6, 12
test('two writers of one record: compare-and-set refuses the second, and a union loses nothing', async () => {
  const name = newName()
  await (await open(pannier, name)).close()
  const read = async (): Promise<{ jids: string[]; revision: number }> => {
    const record = (await pannier.sessions.get(name, [{ type: 'tctoken', ids: ['__index'] }])).records[0]
    return { jids: record ? (JSON.parse(Buffer.from(record.value).toString()) as string[]) : [], revision: record?.revision ?? 0 }
  }
  const write = (jids: string[], ifRevision: number) =>
    pannier.sessions.commit(name, { puts: [{ type: 'tctoken', id: '__index', kind: 2, value: Buffer.from(JSON.stringify(jids)), ifRevision }] })
  const seen = await read()
  await write(['first'], seen.revision)
  await expect(write(['second'], seen.revision)).rejects.toMatchObject({ reason: 'REVISION_CONFLICT' })
  const add = async (jid: string): Promise<void> => {
    for (;;) {
      const { jids, revision } = await read()
      try {
        await write([...jids, jid], revision)
        return
      } catch (error) {
        expect(error).toMatchObject({ reason: 'REVISION_CONFLICT' })
      }
    }
  }
  await Promise.all(Array.from({ length: 20 }, (_, i) => add(`jid${i}`)))
  expect(new Set((await read()).jids).size).toBe(21)
})

// tulir/whatsmeow#505, #298, waha#1503; row 42
test('32 sessions write at once, and nothing fails', async () => {
  const bots = await Promise.all(Array.from({ length: 32 }, () => open(pannier, newName())))
  await Promise.all(
    bots.flatMap(bot => Array.from({ length: 50 }, (_, i) => bot.state.keys.set(data({ session: { [`s${i % 10}`]: session(i) } })))),
  )
  for (const bot of bots) expect(await one(bot, 'session', 's9')).toEqual(session(49))
  await Promise.all(bots.map(bot => bot.close()))
})
