// An unmodified Baileys socket with its state in Pannier: it logs in, answers, and is still the same device after everything
// that can happen to the sidecar, but for one thing: a store that was set back.
import { afterEach, beforeEach, expect, test } from 'vitest'
import { connect, type Pannier, StaleStateError } from 'pannier'
import { usePannierAuthState } from 'pannier/baileys'
import { type Version, VERSIONS } from '../src/baileys-versions.js'
import { Bot } from '../src/bot.js'
import { type FakeWhatsApp, type Peer, startFakeWhatsApp } from '../src/fake-whatsapp.js'
import { Faults } from '../src/faults.js'
import { connectTo, pannierStates } from '../src/pannier-store.js'
import { Random } from '../src/random.js'
import { Sidecar } from '../src/sidecar.js'
import { badMacs } from '../src/signal-console.js'

/** Pre-keys that each uploads at its first login. */
const PRE_KEYS: Record<Version, number> = { '7.0.0-rc14': 812, '6.7.24': 30 }

let wa: FakeWhatsApp
let peer: Peer
let sidecar: Sidecar
let pannier: Pannier
const cleanup: (() => Promise<unknown>)[] = []

beforeEach(async () => {
  wa = await startFakeWhatsApp()
  peer = wa.addPeer('15550001111@s.whatsapp.net')
  sidecar = await Sidecar.start()
  pannier = await connectTo(sidecar)
})

afterEach(async () => {
  for (const clean of cleanup.splice(0).reverse()) await clean()
  await pannier?.close()
  await sidecar?.stop()
  await wa.close()
  expect(wa.errors).toEqual([])
})

async function startBot(version: Version = '7.0.0-rc14', over = pannier): Promise<Bot> {
  const bot = await Bot.start({
    version,
    url: wa.url,
    openAuthState: pannierStates(over, version),
    onQr: qr => wa.scanQr(qr),
    reply: text => `you said: ${text}`,
  })
  cleanup.push(() => bot.stop())
  return bot
}

/** A message to the bot, and its answer back. */
async function exchange(text: string): Promise<void> {
  await peer.send(text)
  expect((await peer.nextMessage({ timeoutMs: 20_000 })).text).toBe(`you said: ${text}`)
}

test.each(VERSIONS)('%s pairs, is restarted by the server with 515, logs in, reads a message and answers it', async version => {
  const bot = await startBot(version)
  expect(bot.closes).toEqual([515])
  await exchange('hello')
  await exchange('are you there?')
  expect(bot.credentials.me?.id).toBe('15559990000:1@s.whatsapp.net')
  expect(bot.undecryptable).toEqual([])
  expect(wa.counters).toMatchObject({ pairings: 1, logins: 1, preKeysUploaded: PRE_KEYS[version], retryReceipts: 0 })
})

test.each(VERSIONS)('%s goes on answering while sidecar and Valkey are killed and scripts are flushed, and never pairs again', { timeout: 120_000 }, async version => {
  const others = ['15550002222', '15550003333'].map(number => wa.addPeer(`${number}@s.whatsapp.net`))
  const group = wa.addGroup([peer, ...others], { addressingMode: version === '6.7.24' ? 'pn' : 'lid' })
  let bot = await startBot(version)
  const faults = new Faults(sidecar, undefined, new Random(Random.seed()), 1, 0)
  for (const fault of ['sidecar', 'valkey', 'scripts', 'sidecar', 'valkey', 'sidecar'] as const) {
    // Before, while and after it is away.
    await exchange(`before ${fault}`)
    const striking = faults.strike(fault)
    await exchange(`while ${fault}`)
    await striking
    await others[0]?.send(`group ${fault}`, { group })
    for (const reader of [peer, ...others]) {
      expect((await reader.nextMessage({ timeoutMs: 20_000 })).text).toBe(`you said: group ${fault}`)
    }
  }
  await bot.stop()
  await sidecar.kill()
  await peer.send('while both were away')
  sidecar.run()
  bot = await startBot(version)
  // 6.7.24 keeps what came while it was away in its event buffer until something else comes.
  await peer.send('back')
  for (const text of ['while both were away', 'back']) expect((await peer.nextMessage()).text).toBe(`you said: ${text}`)
  expect(bot.pairings).toBe(0)
  expect(bot.undecryptable).toEqual([])
  expect(bot.fatal).toBeUndefined()
  expect(wa.counters).toMatchObject({ pairings: 1, refused: 0, preKeysUploaded: PRE_KEYS[version], retryReceipts: 0 })
})

test('a store set back by one message stops the bot with STALE_STATE before anything is decrypted with it', { timeout: 60_000 }, async () => {
  const bot = await startBot()
  await exchange('one')
  await exchange('two')
  await bot.received.next()
  await bot.received.next()
  const backup = await sidecar.backup()
  await exchange('three')
  await bot.received.next()
  const failed = badMacs()
  await sidecar.setBack(backup)
  await expect.poll(() => bot.fatal, { timeout: 15_000 }).toBeInstanceOf(StaleStateError)
  await peer.send('four')
  await new Promise(resolve => setTimeout(resolve, 300))
  expect(bot.received.size).toBe(0)
  expect(badMacs()).toBe(failed)
  expect(wa.counters.retryReceipts).toBe(0)
  // Opening it again in this process does not get past it either.
  await expect(pannierStates(pannier, '7.0.0-rc14')('bot')).rejects.toBeInstanceOf(StaleStateError)
})

test('without that, a process that knows nothing of what was acknowledged gets Bad MAC; with a noted revision it does not start', { timeout: 60_000 }, async () => {
  const first = await startBot()
  await exchange('one')
  await exchange('two')
  const backup = await sidecar.backup()
  await exchange('three')
  await first.stop()
  const state = await pannierStates(pannier, '7.0.0-rc14')('bot')
  const { revision } = state
  await state.close()

  // At another address, this process knows as little of it as a fresh one.
  const older = await sidecar.startOn(backup)
  cleanup.push(() => older.stop())
  const ignorant = await connect({ address: older.address })
  cleanup.push(() => ignorant.close())
  await expect(usePannierAuthState(ignorant, 'bot', { minRevision: revision })).rejects.toBeInstanceOf(StaleStateError)
  const failed = badMacs()
  const second = await startBot('7.0.0-rc14', ignorant)
  await peer.send('four')
  await expect.poll(() => second.undecryptable, { timeout: 15_000 }).toContain('No matching sessions found for message')
  expect(badMacs()).toBeGreaterThan(failed)
})
