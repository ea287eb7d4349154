import { cp, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { baileys, type Version, VERSIONS } from '../src/baileys-versions.js'
import { type AuthStore, Bot } from '../src/bot.js'
import { type FakeWhatsApp, startFakeWhatsApp } from '../src/fake-whatsapp.js'
import { memoryAuthState } from '../src/memory-store.js'
import { badMacs } from '../src/signal-console.js'

let wa: FakeWhatsApp
let folder: string
const bots: Bot[] = []

beforeEach(async () => {
  wa = await startFakeWhatsApp()
  folder = await mkdtemp(join(tmpdir(), 'bot-'))
})

afterEach(async () => {
  await Promise.all(bots.splice(0).map(bot => bot.stop()))
  await wa.close()
  await rm(folder, { recursive: true, maxRetries: 5 })
  expect(wa.errors).toEqual([])
})

/** 6.7.24 loses what it sets while a commit runs (see baileys-habits.test.ts): in memory a commit takes no time. */
const inMemory: AuthStore = { state: memoryAuthState(), saveCreds: async () => undefined }

async function startBot(version: Version = '7.0.0-rc14'): Promise<Bot> {
  if (version === '6.7.24') inMemory.state = memoryAuthState()
  const bot = await Bot.start({
    version,
    url: wa.url,
    openAuthState: async () => (version === '6.7.24' ? inMemory : baileys(version).useMultiFileAuthState(folder)),
    onQr: qr => wa.scanQr(qr),
    reply: text => `you said: ${text}`,
  })
  bots.push(bot)
  return bot
}

test('an unmodified bot pairs, is restarted by the server, logs in and uploads its pre-keys', async () => {
  const bot = await startBot()
  expect(bot.pairings).toBe(1)
  expect(bot.closes).toEqual([515])
  expect(bot.credentials.me?.id).toBe('15559990000:1@s.whatsapp.net')
  expect(wa.counters).toMatchObject({ pairings: 1, logins: 1, preKeysUploaded: 812 })
})

test.each(VERSIONS)('%s: a message reaches the bot and its reply reaches the sender, decrypted on both sides', async version => {
  const bot = await startBot(version)
  const peer = wa.addPeer('15550001111@s.whatsapp.net')
  for (const text of ['hello', 'are you there?', 'good']) {
    await peer.send(text)
    expect((await bot.received.next()).text).toBe(text)
    expect((await peer.nextMessage()).text).toBe(`you said: ${text}`)
  }
  expect(bot.undecryptable).toEqual([])
  expect(peer.undecryptable).toEqual([])
  expect(wa.counters.retryReceipts).toBe(0)
})

test('a bot that comes back logs in with its stored state, without pairing again, and keeps its sessions', async () => {
  const peer = wa.addPeer('15550001111@s.whatsapp.net')
  const first = await startBot()
  await peer.send('before')
  expect((await peer.nextMessage()).text).toBe('you said: before')
  await first.stop()

  await peer.send('while away')
  const second = await startBot()
  expect((await peer.nextMessage()).text).toBe('you said: while away')
  await peer.send('after')
  expect((await peer.nextMessage()).text).toBe('you said: after')
  expect(second.pairings).toBe(0)
  expect(wa.counters).toMatchObject({ pairings: 1, logins: 2, retryReceipts: 0, preKeysUploaded: 812 })
})

test.each([
  ['7.0.0-rc14', 'lid'], ['7.0.0-rc14', 'pn'], ['6.7.24', 'pn'],
] as const)('%s: group messages go both ways, in a group addressed by %s', async (version, addressingMode) => {
  const bot = await startBot(version)
  const peers = ['15550001111', '15550002222', '15550003333'].map(number => wa.addPeer(`${number}@s.whatsapp.net`))
  const group = wa.addGroup(peers, { addressingMode })
  for (const [n, peer] of [...peers, ...peers].entries()) {
    await peer.send(`message ${n}`, { group })
    expect((await bot.received.next()).text).toBe(`message ${n}`)
    for (const reader of peers) {
      expect(await reader.nextMessage()).toMatchObject({ text: `you said: message ${n}`, group: group.jid })
    }
  }
  expect(bot.undecryptable).toEqual([])
  expect(wa.counters.retryReceipts).toBe(0)
})

test('a second connection with the same credentials pushes out the first', async () => {
  const first = await startBot()
  const closed = new Promise(resolve => first.socket.ev.on('connection.update', ({ connection }) => connection === 'close' && resolve(undefined)))
  await startBot()
  await closed
  expect(first.closes).toEqual([515, 440])
  expect(wa.counters.conflicts).toBe(1)
})

test('a store set back by one exchange makes the next message undecryptable: Bad MAC, and the bot asks for it again', async () => {
  const peer = wa.addPeer('15550001111@s.whatsapp.net')
  const exchange = async (bot: Bot, text: string) => {
    await peer.send(text)
    expect((await bot.received.next()).text).toBe(text)
    expect((await peer.nextMessage()).text).toBe(`you said: ${text}`)
  }
  const older = `${folder}-older`
  const first = await startBot()
  await exchange(first, 'one')
  await exchange(first, 'two')
  await first.stop()
  await cp(folder, older, { recursive: true })

  const second = await startBot()
  await exchange(second, 'three')
  await second.stop()
  expect(wa.counters.retryReceipts).toBe(0)

  await rm(folder, { recursive: true })
  await cp(older, folder, { recursive: true })
  await rm(older, { recursive: true })
  const third = await startBot()
  const before = badMacs()
  await peer.send('four')
  await expect.poll(() => third.undecryptable, { timeout: 15_000 }).toContain('No matching sessions found for message')
  await expect.poll(() => wa.counters.retryReceipts, { timeout: 15_000 }).toBeGreaterThan(0)
  expect(badMacs()).toBeGreaterThan(before)
  // Baileys asks twice; the second time it sends keys for a new session, and with those the message gets through.
  expect((await third.received.next()).text).toBe('four')
  expect(wa.counters.retryReceipts).toBe(2)
  expect(third.pairings).toBe(0)
})

test('a bot that logged out is refused with 401 when it comes back with its old credentials', async () => {
  const bot = await startBot()
  await bot.socket.logout()
  await expect.poll(() => bot.closes, { timeout: 15_000 }).toEqual([515, 401])
  const refused = await Bot.connect({
    url: wa.url,
    openAuthState: () => baileys('7.0.0-rc14').useMultiFileAuthState(folder),
    onQr: qr => wa.scanQr(qr),
  })
  bots.push(refused)
  await expect.poll(() => refused.closes, { timeout: 15_000 }).toEqual([401])
  expect(wa.counters.refused).toBe(1)
})
