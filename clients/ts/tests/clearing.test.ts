import { DisconnectReason } from 'baileys'
import { expect, test } from 'vitest'
import { FencedError, type Pannier } from '../src/index.js'
import { data, newName, one, open } from './support/states.js'
import { sidecarForAll } from './support/sidecar.js'

let pannier: Pannier
sidecarForAll(place => ({ pannier } = place))

const archives = async (session: string) => {
  const all = []
  for await (const archive of pannier.sessions.deleted(session)) all.push(archive)
  return all
}

// Baileys#1884, #1890, hbinduni/baileys-redis-auth#4
test('logged out (401): archived and cleared; any other end of the connection clears nothing', async () => {
  const session = newName()
  const bot = await open(pannier, session)
  await bot.state.keys.set(data({ session: { a: { n: 1 } } }))
  const boom = (statusCode: number) => Object.assign(new Error('x'), { output: { statusCode } })
  for (const reason of [undefined, null, new Error('x'), boom(DisconnectReason.connectionReplaced), boom(DisconnectReason.restartRequired), 428]) {
    expect(await bot.onLoggedOut(reason)).toBe(false)
  }
  expect(await one(bot, 'session', 'a')).toEqual({ n: 1 })
  expect(await bot.onLoggedOut(boom(DisconnectReason.loggedOut))).toBe(true)
  expect(await archives(session)).toHaveLength(1)
  const next = await open(pannier, session)
  expect(next.state.creds.noiseKey).not.toEqual(bot.state.creds.noiseKey)
  expect(await one(next, 'session', 'a')).toBeUndefined()
  await next.close()
})

// flushTcTokenIndex fires on close; listeners of creds.update stay attached; row 29
test('a late save or set after a clear brings nothing back, and the next state is not disturbed', async () => {
  const session = newName()
  const old = await open(pannier, session)
  await old.state.keys.set(data({ tctoken: { __index: { token: Buffer.from('old') } } }))
  void old.saveCreds()
  await old.clear()
  await expect(old.saveCreds()).rejects.toBeInstanceOf(FencedError)
  await expect(old.state.keys.set(data({ tctoken: { __index: { token: Buffer.from('late') } } }))).rejects.toBeInstanceOf(FencedError)
  await expect(one(old, 'tctoken', '__index')).rejects.toBeInstanceOf(FencedError)
  await expect(old.flush()).rejects.toBeInstanceOf(FencedError)
  await old.clear()
  const next = await open(pannier, session)
  expect(await one(next, 'tctoken', '__index')).toBeUndefined()
  await next.state.keys.set(data({ tctoken: { __index: { token: Buffer.from('new') } } }))
  await expect(old.saveCreds()).rejects.toBeInstanceOf(FencedError)
  expect(await one(next, 'tctoken', '__index')).toEqual({ token: Buffer.from('new') })
  expect(next.fatal).toEqual([])
  await old.close()
  await next.close()
})

test('a set called before the clear is stored before it, one called after it is not', async () => {
  const session = newName()
  const bot = await open(pannier, session)
  const before = bot.state.keys.set(data({ session: { before: { n: 1 } } }))
  const cleared = bot.clear()
  const after = bot.state.keys.set(data({ session: { after: { n: 1 } } }))
  await expect(after).rejects.toBeInstanceOf(FencedError)
  await before
  await cleared
  expect((await archives(session))[0]?.counts).toContainEqual(expect.objectContaining({ type: 'session', records: 1 }))
  await bot.close()
})

// openclaw PR#92617, #92948; row 34
test('what was cleared can be restored', async () => {
  const session = newName()
  const bot = await open(pannier, session)
  await bot.state.keys.set(data({ session: { a: { n: 1 } } }))
  const { noiseKey } = bot.state.creds
  await bot.clear()
  await bot.close()
  await expect(pannier.sessions.restore(session)).rejects.toMatchObject({ reason: 'WRONG_STATE' })
  await pannier.sessions.restore(session, { replace: true })
  const back = await open(pannier, session)
  expect(back.state.creds.noiseKey).toEqual(noiseKey)
  expect(await one(back, 'session', 'a')).toEqual({ n: 1 })
  await back.close()
})

// fazer-ai#366; row 26
test('deleting a session that nobody holds, or that is not there, succeeds', async () => {
  const session = newName()
  expect(await pannier.sessions.delete(session)).toBe(false)
  await (await open(pannier, session)).close()
  expect(await pannier.sessions.delete(session)).toBe(true)
  expect(await pannier.sessions.delete(session)).toBe(false)
  expect(await pannier.sessions.info(session)).toBeUndefined()
  expect(await pannier.sessions.delete(session, { mode: 'shred' })).toBe(true)
  expect(await archives(session)).toEqual([])
})

test('sessions are listed, with what is in them', async () => {
  const session = newName()
  const bot = await open(pannier, session)
  await bot.state.keys.set(data({ session: { a: { n: 1 } } }))
  const all = []
  for await (const info of pannier.sessions.list()) all.push(info)
  expect(all.find(info => info.session === session)).toMatchObject({ namespace: 'default', revision: bot.revision })
  const records = []
  for await (const record of pannier.sessions.records(session, { type: 'session' })) records.push(record)
  expect(records.map(record => [record.type, record.id, Buffer.from(record.value).toString()])).toEqual([['session', 'a', '{"n":1}']])
  await bot.close()
})
