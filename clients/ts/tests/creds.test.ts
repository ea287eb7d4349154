import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { initAuthCreds } from 'baileys'
import { expect, test, vi } from 'vitest'
import { Records } from '../src/baileys/records.js'
import { makeError } from '../src/errors.js'
import { CorruptRecordError, ExhaustedError, WrongStateError, type Pannier } from '../src/index.js'
import { newName, open, pause, within } from './support/states.js'
import { Sidecar, sidecarForAll } from './support/sidecar.js'

let sidecar: Sidecar
let pannier: Pannier
sidecarForAll(place => ({ sidecar, pannier } = place))

/** Leaves and comes back as another process would: nothing remembered. */
async function reopened(session: string) {
  return open(pannier, session, { owner: `another-${Math.random()}`, preload: [] })
}

// WhiskeySockets/Baileys#794, PR#824
test('200 saves that nobody awaits: the last one is what is there', async () => {
  const session = newName()
  const bot = await open(pannier, session)
  for (let i = 0; i < 200; i++) {
    bot.state.creds.accountSettings = { unarchiveChats: false, defaultDisappearingMode: undefined }
    bot.state.creds.nextPreKeyId = i
    void bot.saveCreds()
    if (i % 7 === 0) await pause(0)
  }
  await bot.flush()
  const there = await pannier.sessions.get(session, [{ type: 'creds', ids: ['creds'] }])
  expect(JSON.parse(Buffer.from(there.records[0]?.value ?? []).toString())).toMatchObject({ nextPreKeyId: 199 })
  await bot.close()
  const next = await reopened(session)
  expect(next.state.creds.nextPreKeyId).toBe(199)
  await next.close()
})

test('many saves become few commits, and a keys commit never overtakes an earlier save', async () => {
  const session = newName()
  const bot = await open(pannier, session)
  const commits: number[] = []
  bot.on('commit', commit => commits.push(commit.revision))
  for (let i = 0; i < 50; i++) void bot.saveCreds()
  await bot.flush()
  expect(commits.length).toBeLessThanOrEqual(2)
  bot.state.creds.nextPreKeyId = 31
  void bot.saveCreds()
  await bot.state.keys.set({ 'pre-key': { '30': { public: Buffer.from([1]), private: Buffer.from([2]) } } })
  const there = await pannier.sessions.get(session, [{ type: 'creds', ids: ['creds'] }, { type: 'pre-key', ids: ['30'] }])
  const [creds, key] = ['creds', 'pre-key'].map(type => there.records.find(record => record.type === type))
  expect(JSON.parse(Buffer.from(creds?.value ?? []).toString())).toMatchObject({ nextPreKeyId: 31 })
  expect(creds?.revision).toBeLessThan(key?.revision ?? 0)
  await bot.close()
})

test('what listings show of an account comes with its creds', async () => {
  const session = newName()
  const bot = await open(pannier, session)
  expect((await pannier.sessions.info(session))?.lease?.live).toBe(true)
  Object.assign(bot.state.creds, { me: { id: '1:1@s.whatsapp.net' }, registered: true, nextPreKeyId: 61 })
  await bot.saveCreds()
  expect((await pannier.sessions.info(session))?.attributes).toMatchObject({ paired: true, nextPreKeyId: 61n })
  await bot.close()
})

// NousResearch/hermes-agent#84180, Baileys PR#2675; row 2
test('Valkey refuses a write: it is said, the old creds stay, and there is never a new identity', async () => {
  const session = newName()
  const bot = await open(pannier, session)
  const identity = Buffer.from(bot.state.creds.signedIdentityKey.public)
  Object.assign(bot.state.creds, { me: { id: 'me@s.whatsapp.net' } })
  await bot.saveCreds()
  await sidecar.valkey.client.config('SET', 'maxmemory', '1mb')
  try {
    bot.state.creds.nextPreKeyId = 500
    await expect(bot.saveCreds()).rejects.toBeInstanceOf(ExhaustedError)
    expect(bot.warnings.join()).toMatch(/creds could not be saved/)
    const there = await pannier.sessions.get(session, [{ type: 'creds', ids: ['creds'] }])
    expect(Buffer.from(there.records[0]?.value ?? []).toString()).not.toMatch('"nextPreKeyId":500')
  } finally {
    await sidecar.valkey.client.config('SET', 'maxmemory', '0')
  }
  // It is tried again by itself.
  await expect.poll(async () => (await pannier.sessions.info(session))?.attributes?.nextPreKeyId, { timeout: 10_000 }).toBe(500n)
  await bot.close()
  const next = await reopened(session)
  expect(Buffer.from(next.state.creds.signedIdentityKey.public)).toEqual(identity)
  await next.close()
})

// NousResearch/hermes-agent#84180, of a disk that is full
test('Valkey takes no writes for a while (MISCONF): sets and saves wait for it, and the creds are stored by themselves', async () => {
  const full = await Sidecar.start({ valkey: ['--appendonly', 'no', '--enable-protected-configs', 'yes'] })
  try {
    const { client } = full.valkey
    const session = newName()
    const over = await full.connect()
    const bot = await open(over, session)
    await bot.state.keys.set({ 'lid-mapping': { '1': '2' } })
    const gone = mkdtempSync(join(tmpdir(), 'pannier-gone-'))
    await client.config('SET', 'dir', gone)
    rmSync(gone, { recursive: true })
    await client.config('SET', 'save', '1 1')
    await bot.state.keys.set({ 'lid-mapping': { '1': '3' } })
    await expect.poll(async () => /rdb_last_bgsave_status:(\w+)/.exec(await client.info('persistence'))?.[1], { timeout: 20_000 }).toBe('err')
    bot.state.creds.nextPreKeyId = 777
    const saved = bot.saveCreds()
    const set = bot.state.keys.set({ 'lid-mapping': { '2': '4' } })
    await pause(1500)
    expect((await over.sessions.info(session))?.attributes?.nextPreKeyId).not.toBe(777n)
    await client.config('SET', 'dir', full.valkey.folder)
    await client.config('SET', 'save', '')
    await client.call('CONFIG', 'SET', 'stop-writes-on-bgsave-error', 'no')
    await within(20_000, Promise.all([saved, set]))
    expect((await over.sessions.info(session))?.attributes?.nextPreKeyId).toBe(777n)
    expect(bot.fatal).toEqual([])
    await bot.close()
  } finally {
    await full.stop()
  }
})

test('a save that was refused is tried again unless the refusal is final', async () => {
  const bot = await open(pannier, newName())
  const write = vi.spyOn(Records.prototype, 'write')
  const refuseOnce = (reason: string, code: string): void => void write.mockImplementationOnce(() => Promise.reject(makeError({ code, reason, message: 'x' })))
  try {
    for (const [reason, code] of [['INTERNAL', 'INTERNAL'], ['QUOTA', 'RESOURCE_EXHAUSTED'], ['CORRUPT_RECORD', 'DATA_LOSS'], ['SOMETHING_NEW', 'UNKNOWN']] as const) {
      refuseOnce(reason, code)
      write.mockClear()
      await expect(bot.saveCreds()).rejects.toMatchObject({ reason })
      await expect.poll(() => write.mock.calls.length, { timeout: 5000 }).toBe(2)
      await bot.flush()
    }
    refuseOnce('TOO_LARGE', 'INVALID_ARGUMENT')
    write.mockClear()
    await expect(bot.saveCreds()).rejects.toMatchObject({ reason: 'TOO_LARGE' })
    await pause(2500)
    expect(write).toHaveBeenCalledTimes(1)
  } finally {
    write.mockRestore()
  }
  await bot.close()
})

// adiwajshing/Baileys#1475, #1119; row 4
test('creds of 8 MB are stored whole, with a warning', async () => {
  const session = newName()
  const bot = await open(pannier, session)
  bot.state.creds.processedHistoryMessages = Array.from({ length: 50_000 }, (_, i) => ({
    key: { remoteJid: `${String(i).padStart(20, '1')}@s.whatsapp.net`, fromMe: false, id: `3EB0${String(i).padStart(36, 'A')}` },
    messageTimestamp: 1_790_000_000 + i,
  }))
  await bot.saveCreds()
  expect(bot.warnings.join()).toMatch(/creds are large/)
  await bot.close()
  const next = await reopened(session)
  expect(next.state.creds.processedHistoryMessages).toHaveLength(50_000)
  expect(next.state.creds.processedHistoryMessages).toEqual(bot.state.creds.processedHistoryMessages)
  await next.close()
})

// Baileys PR#2575 (H7); row 11
test('corrupt creds are an error, never a first run; other sessions go on', async () => {
  const [broken, whole] = [newName(), newName()]
  for (const session of [broken, whole]) await (await open(pannier, session)).close()
  const before = new Set(await sidecar.valkey.client.keys('*'))
  expect(before.size).toBeGreaterThan(0)
  const third = newName()
  await (await open(pannier, third)).close()
  const made = (await sidecar.valkey.client.keys('*')).filter(key => !before.has(key))
  let flipped = 0
  for (const key of made) {
    if ((await sidecar.valkey.client.type(key)) !== 'hash') continue
    for (const [field, value] of await entries(key)) {
      if (value.length < 500) continue
      value[value.length - 1] = (value[value.length - 1] as number) ^ 1
      await sidecar.valkey.client.hset(key, field, value)
      flipped++
    }
  }
  expect(flipped).toBe(1)
  await expect(reopened(third)).rejects.toBeInstanceOf(CorruptRecordError)
  await expect(open(pannier, third)).rejects.toMatchObject({ reason: 'CORRUPT_RECORD', metadata: { type: 'creds' } })
  await (await reopened(whole)).close()
})

/** Fields as bytes: their names are not text. */
async function entries(key: string): Promise<[Buffer, Buffer][]> {
  const flat = (await sidecar.valkey.client.callBuffer('HGETALL', key)) as Buffer[]
  return flat.flatMap((field, i) => (i % 2 === 0 ? [[field, flat[i + 1] as Buffer] as [Buffer, Buffer]] : []))
}

// Baileys PR#2641 (msgpack creds beside legacy ones); row 43
test('creds in a form that is not Baileys\' JSON are an error, never a fresh identity', async () => {
  const session = newName()
  const bot = await open(pannier, session)
  await bot.close()
  await pannier.sessions.commit(session, { puts: [{ type: 'creds', id: 'creds', kind: 1, value: Buffer.from([0x81, 0xa1, 0x61, 1]) }] })
  await expect(reopened(session)).rejects.toThrow(/BufferJSON/)
  await pannier.sessions.commit(session, { puts: [{ type: 'creds', id: 'creds', kind: 2, value: Buffer.from('{"old":true}') }] })
  await expect(reopened(session)).rejects.toBeInstanceOf(CorruptRecordError)
})

test('Signal keys without creds are an error, not a reason for new creds', async () => {
  const session = newName()
  const bot = await open(pannier, session)
  await bot.state.keys.set({ 'lid-mapping': { '1': '2' } })
  await bot.close()
  await pannier.sessions.commit(session, { deletes: [{ type: 'creds', id: 'creds' }] })
  await expect(reopened(session)).rejects.toBeInstanceOf(WrongStateError)
})

test('fresh creds are those of Baileys, and are stored at once', async () => {
  const session = newName()
  const bot = await open(pannier, session)
  expect(Object.keys(bot.state.creds).sort()).toEqual(Object.keys(initAuthCreds()).sort())
  expect((await pannier.sessions.info(session))?.counts).toMatchObject([{ type: 'creds', records: 1 }])
  await bot.close()
})
