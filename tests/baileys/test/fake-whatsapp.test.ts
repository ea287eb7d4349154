import { useMultiFileAuthState } from 'baileys'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { Bot } from '../src/bot.js'
import { type FakeWhatsApp, startFakeWhatsApp } from '../src/fake-whatsapp.js'

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
  await rm(folder, { recursive: true })
  expect(wa.errors).toEqual([])
})

async function startBot(): Promise<Bot> {
  const bot = await Bot.start({
    url: wa.url,
    openAuthState: () => useMultiFileAuthState(folder),
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

test('a message reaches the bot and its reply reaches the sender, decrypted on both sides', async () => {
  const bot = await startBot()
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
