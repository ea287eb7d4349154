import { proto } from 'baileys'
import { beforeAll, expect, test } from 'vitest'
import type { Pannier } from '../src/index.js'
import { data, many, messagesDuring, newName, one, open, pause, type Watched } from './support/states.js'
import { sidecarForAll } from './support/sidecar.js'

let pannier: Pannier
let bot: Watched
let session: string
sidecarForAll(place => ({ pannier } = place))
beforeAll(async () => {
  session = newName()
  bot = await open(pannier, session)
})

/** The same session as a process sees it that has nothing cached. */
async function elsewhere<T>(look: (state: Watched) => Promise<T>): Promise<T> {
  const other = await open(pannier, session, { owner: 'elsewhere', onHeld: 'takeOver', preload: [] })
  const seen = await look(other)
  await other.close()
  bot = await open(pannier, session)
  return seen
}

test('only ids that exist come back, and nothing is asked for nothing', async () => {
  await bot.state.keys.set({ session: { a: data({}) as never } })
  expect(Object.keys(await bot.state.keys.get('session', ['a', 'b']))).toEqual(['a'])
  expect(await messagesDuring(async () => expect(await bot.state.keys.get('session', [])).toEqual({}))).toBe(0)
})

test('falsy values delete; empty ones are stored', async () => {
  await bot.state.keys.set(data({ x: { object: {}, list: [], bytes: Buffer.alloc(0), gone: 'there', zero: 'there', empty: 'there' } }))
  await bot.state.keys.set(data({ x: { gone: null, zero: 0, empty: '' } }))
  const expected = { object: {}, list: [], bytes: Buffer.alloc(0) }
  const ids = ['object', 'list', 'bytes', 'gone', 'zero', 'empty']
  expect(await many(bot, 'x', ids)).toEqual(expected)
  expect(await elsewhere(other => many(other, 'x', ids))).toEqual(expected)
})

test('each get gives fresh objects, whose bytes are Buffers', async () => {
  await bot.state.keys.set({ 'pre-key': { '1': { public: new Uint8Array([1, 2]), private: Buffer.from([3]) } } })
  const first = (await bot.state.keys.get('pre-key', ['1']))['1']
  expect(Buffer.isBuffer(first?.public) && Buffer.isBuffer(first.private)).toBe(true)
  if (first) first.public[0] = 99
  expect((await bot.state.keys.get('pre-key', ['1']))['1']?.public).toEqual(Buffer.from([1, 2]))
})

test('what is stored is what was given at the call, not what it became', async () => {
  const value = { list: [1], bytes: Buffer.from([1]) }
  const raw = Buffer.from([7])
  const done = bot.state.keys.set(data({ snap: { value, raw } }))
  value.list.push(2)
  value.bytes[0] = 9
  raw[0] = 8
  await done
  expect(await one(bot, 'snap', 'value')).toEqual({ list: [1], bytes: Buffer.from([1]) })
  expect(await elsewhere(other => one(other, 'snap', 'raw'))).toEqual(Buffer.from([7]))
})

test('a Promise, or creds among keys, is refused before anything is written', async () => {
  await expect(bot.state.keys.set(data({ session: { p: Promise.resolve(1) } }))).rejects.toBeInstanceOf(TypeError)
  await expect(bot.state.keys.set(data({ creds: { creds: {} } }))).rejects.toBeInstanceOf(TypeError)
  await expect(bot.state.keys.set(data({ session: { '': 'x' } }))).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' })
  await expect(bot.state.keys.set(data({ session: { ['x'.repeat(513)]: 'x' } }))).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' })
  await bot.state.keys.set(data({ session: { fine: { a: 1 } } }))
})

test('ids of any characters stay apart', async () => {
  const ids = ['a', 'A', 'a:b', 'a/b', 'a*', '*', '{a}', 'a+b', ' a', 'a ', 'é', 'e\u0301', '😀', '__proto__', 'constructor', 'x'.repeat(512), '0', '00']
  await bot.state.keys.set(data({ any: Object.fromEntries(ids.filter(id => id !== '__proto__').map(id => [id, { is: id }])) }))
  const seen = await elsewhere(other => many(other, 'any', ids))
  for (const id of ids.filter(one => one !== '__proto__')) expect(seen[id]).toEqual({ is: id })
  expect((await bot.listIds('any')).sort()).toEqual(ids.filter(id => id !== '__proto__').sort())
})

// Baileys#2372, #1769, #2331, #2340; row 7
test('a session moves from its number to its LID in one step: a reader sees one of them at any time', async () => {
  const value = { session: 'x'.repeat(2000) }
  await bot.state.keys.set(data({ session: { 'A.0': value, 'A_1.0': null } }))
  let moving = true
  let looks = 0
  const reader = (async () => {
    while (moving) {
      const { records } = await pannier.sessions.get(session, [{ type: 'session', ids: ['A.0', 'A_1.0'] }])
      expect(records.map(record => record.id)).toHaveLength(1)
      looks++
    }
  })()
  for (let i = 0; i < 100; i++) {
    await bot.state.keys.set(data({ session: i % 2 ? { 'A.0': value, 'A_1.0': null } : { 'A_1.0': value, 'A.0': null } }))
    expect(Object.keys(await bot.state.keys.get('session', ['A.0', 'A_1.0']))).toHaveLength(1)
  }
  moving = false
  await reader
  expect(looks).toBeGreaterThan(5)
})

// evolution-api#2685, #2610, #2593; mysql-baileys PR#24; rows 37, 38
test('an app-state-sync key comes back as Baileys\' class with its 32 bytes, whatever form it went in', async () => {
  const key = Buffer.alloc(32, 7)
  const fingerprint = { rawId: 1, currentIndex: 2, deviceIndexes: [0, 1] }
  const forms: Record<string, unknown> = {
    message: proto.Message.AppStateSyncKeyData.fromObject({ keyData: key, fingerprint, timestamp: 1_790_000_000_000 }),
    buffer: { keyData: key, fingerprint },
    array: { keyData: { type: 'Buffer', data: [...key] }, fingerprint },
    numbered: { keyData: Object.fromEntries([...key].entries()), fingerprint },
    base64: { keyData: key.toString('base64'), fingerprint },
  }
  await bot.state.keys.set(data({ 'app-state-sync-key': forms }))
  const look = async (state: Watched) => state.state.keys.get('app-state-sync-key', Object.keys(forms))
  for (const found of [await look(bot), await elsewhere(look)]) {
    for (const name of Object.keys(forms)) {
      const value = found[name]
      expect(value, name).toBeInstanceOf(proto.Message.AppStateSyncKeyData)
      expect(Buffer.from(value?.keyData ?? []), name).toEqual(key)
      expect(value?.fingerprint?.deviceIndexes, name).toEqual([0, 1])
    }
  }
})

// Baileys#2267, adiwajshing#834, #1623; row 40
test('a key is visible at once to another chain of calls', async () => {
  const waiting = pause(0).then(() => one(bot, 'tctoken', 'just'))
  const set = bot.state.keys.set(data({ tctoken: { just: { token: Buffer.from('now') } } }))
  expect(await one(bot, 'tctoken', 'just')).toEqual({ token: Buffer.from('now') })
  await set
  expect(await waiting).toEqual({ token: Buffer.from('now') })
})

// openclaw PR#118610; row 35
test('every type, also an unknown one, is listed and cleared', async () => {
  const types = ['pre-key', 'session', 'sender-key', 'sender-key-memory', 'app-state-sync-key', 'app-state-sync-version', 'lid-mapping', 'device-list', 'tctoken', 'identity-key', 'foo-bar']
  const name = newName()
  const all = await open(pannier, name)
  await all.state.keys.set(data(Object.fromEntries(types.map(type => [type, { one: { type }, two: Buffer.from(type) }]))))
  for (const type of types) {
    expect((await all.listIds(type)).sort(), type).toEqual(['one', 'two'])
    expect(Object.keys(await all.list(type as 'session')).sort(), type).toEqual(['one', 'two'])
  }
  expect(((await pannier.sessions.info(name))?.counts ?? []).map(count => count.type).sort()).toEqual([...types, 'creds'].sort())
  await all.clear()
  const next = await open(pannier, name)
  for (const type of types) expect(await next.listIds(type), type).toEqual([])
  await next.close()
})

// devlikeapro/waha#1406; Baileys PR#2067; rows 41, 43
test('a session as object and as bytes, small and of 1 MB and 3 MB, comes back as it was', async () => {
  const large = { chains: Array.from({ length: 12_000 }, (_, i) => `${'k'.repeat(60)}${i}`) }
  const values: Record<string, unknown> = { object: { a: 1 }, bytes: Buffer.from([1, 0, 255]), large, three: Buffer.alloc(3_000_000, 'xyz') }
  await bot.state.keys.set(data({ session: values }))
  expect(bot.warnings.join()).toMatch(/unusually large/)
  const seen = await elsewhere(other => many(other, 'session', Object.keys(values)))
  expect(seen.object).toEqual(values.object)
  expect(seen.bytes).toEqual(values.bytes)
  expect(JSON.stringify(seen.large)).toBe(JSON.stringify(large))
  expect(values.three instanceof Buffer && values.three.equals(seen.three as Buffer)).toBe(true)
  const sessions = (await pannier.sessions.info(session))?.counts.find(count => count.type === 'session')
  // What compresses is kept compressed.
  expect(sessions?.bytes).toBeLessThan(1_000_000)
})

test('a commit of 20 MB in many parts is one commit', async () => {
  const revision = bot.revision
  const values = Object.fromEntries(Array.from({ length: 200 }, (_, i) => [`part-${i}`, Buffer.alloc(100_000, i)]))
  await bot.state.keys.set(data({ parts: values }))
  expect(bot.revision).toBe(revision + 1)
  expect(Buffer.alloc(100_000, 77).equals((await elsewhere(other => one(other, 'parts', 'part-77'))) as Buffer)).toBe(true)
  await expect(bot.state.keys.set(data({ parts: { huge: Buffer.alloc(16 * 1024 * 1024 + 1) } }))).rejects.toMatchObject({ reason: 'TOO_LARGE' })
  await expect(
    bot.state.keys.set(data({ parts: Object.fromEntries(Array.from({ length: 3 }, (_, i) => [`b${i}`, Buffer.alloc(12_000_000)])) })),
  ).rejects.toMatchObject({ reason: 'TOO_LARGE' })
})

// Baileys PR#2572 (H0, M5); row 8
test('a call after the end is said, never lost in silence', async () => {
  const name = newName()
  const ended = await open(pannier, name)
  await ended.close()
  await expect(ended.state.keys.set(data({ session: { late: { a: 1 } } }))).rejects.toMatchObject({ reason: 'CLOSED' })
  await expect(ended.saveCreds()).rejects.toMatchObject({ reason: 'CLOSED' })
  expect(ended.events.filter(event => event === 'late')).toHaveLength(2)
  expect(ended.warnings.join()).toMatch(/set came too late/)
})

// Baileys 6.7.24's transactions; row 8
test('what is added to a set under way is stored before it resolves, in order, and said', async () => {
  const name = newName()
  const state = await open(pannier, name)
  const told: Record<string, boolean> = { one: true }
  const given: Record<string, Record<string, unknown>> = { 'sender-key-memory': { group: told }, session: { a: { n: 1 } }, 'pre-key': { '9': { k: 9 } } }
  const rounds: Record<string, unknown>[] = [{ a: { n: 2 }, b: Buffer.from('b') }, { b: null, c: { n: 3 } }]
  state.on('commit', () => {
    // Called before the set resolves: a commit of what was there has come in.
    const values = rounds.shift()
    if (!values) return
    told.two = true
    given.session = Object.assign(given.session ?? {}, values)
    given['pre-key'] = Object.assign(given['pre-key'] ?? {}, { '7': { k: 7 } })
    given.tctoken = { t: 'x' }
  })
  const before = state.revision
  await state.state.keys.set(data(given))
  expect(state.revision).toBe(before + 3)
  expect(state.events.filter(event => event === 'late')).toHaveLength(2)
  expect(state.warnings.join()).toMatch(/added to a set under way/)
  await state.close()
  const fresh = await open(pannier, name)
  expect(await many(fresh, 'session', ['a', 'b', 'c'])).toEqual({ a: { n: 2 }, c: { n: 3 } })
  expect(await many(fresh, 'pre-key', ['7', '9'])).toEqual({ '7': { k: 7 }, '9': { k: 9 } })
  expect(await one(fresh, 'sender-key-memory', 'group')).toEqual({ one: true, two: true })
  expect(await one(fresh, 'tctoken', 't')).toBe('x')
  await fresh.close()
})
