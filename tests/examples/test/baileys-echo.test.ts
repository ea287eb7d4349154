// The echo bot on unmodified Baileys, with a server of ours in WhatsApp's place.
import type { Pannier } from 'pannier'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { type FakeWhatsApp, type Peer, startFakeWhatsApp } from '../../baileys/src/fake-whatsapp.js'
import { connectTo } from '../../baileys/src/pannier-store.js'
import { Sidecar } from '../../baileys/src/sidecar.js'
import { Example, EXAMPLES } from '../src/example.js'
import { dialling, phone } from '../src/local-whatsapp/environment.js'

let wa: FakeWhatsApp
let ana: Peer
let sidecar: Sidecar
let pannier: Pannier
let stopPhone: () => void
const bots: Example[] = []

beforeEach(async () => {
  wa = await startFakeWhatsApp()
  ana = wa.addPeer('15550001111@s.whatsapp.net')
  sidecar = await Sidecar.start()
  pannier = await connectTo(sidecar)
  stopPhone = phone(wa, () => bots.map(bot => bot.output).join(''))
})
afterEach(async context => {
  stopPhone()
  if (context.task.result?.state === 'fail') console.log(bots.map(bot => bot.output))
  for (const bot of bots.splice(0)) await bot.kill9()
  await pannier?.close()
  await sidecar?.stop()
  await wa.close()
  expect(wa.errors).toEqual([])
})

function start(): Example {
  const bot = new Example('baileys-echo', { env: { PANNIER_ADDRESS: sidecar.address, ...dialling(wa, join(EXAMPLES, 'baileys-echo')) } })
  bots.push(bot)
  return bot
}

async function echoes(text: string, timeoutMs = 20_000): Promise<void> {
  await ana.send(text)
  expect((await ana.nextMessage({ timeoutMs })).text).toBe(text)
}
const logins = (count: number, timeout = 60_000) => expect.poll(() => wa.counters.logins, { timeout }).toBe(count)

test('it shows a code, pairs, and echoes; after lost connections and kill -9 of everything without another code', { timeout: 240_000 }, async () => {
  const first = start()
  await first.says(/█/)
  await first.says(/connected/)
  await echoes('hello')

  wa.dropConnections()
  await logins(2)
  await echoes('again')

  await sidecar.kill()
  await ana.send('while the sidecar is away')
  sidecar.run()
  expect((await ana.nextMessage({ timeoutMs: 30_000 })).text).toBe('while the sidecar is away')

  await first.kill9()
  await ana.send('while it is away')
  start() // its lease has to run out first
  await logins(3, 90_000)
  expect((await ana.nextMessage({ timeoutMs: 30_000 })).text).toBe('while it is away')
  await echoes('after')
  expect(wa.counters).toMatchObject({ pairings: 1, refused: 0, conflicts: 0 })
  expect(ana.undecryptable).toEqual([])
})

test('logged out on the phone it leaves an archive, shows a new code and goes on; SIGTERM lets the next one in at once', async () => {
  const bot = start()
  await bot.says(/connected/)
  await echoes('hello')
  wa.removeBots()
  await bot.says(/logged out/)
  await expect.poll(() => wa.counters.pairings, { timeout: 30_000 }).toBe(2)
  await expect.poll(() => bot.output.match(/connected/g)?.length, { timeout: 30_000 }).toBe(2)
  await echoes('a new life')
  const archives = []
  for await (const archive of pannier.sessions.deleted('echo')) archives.push(archive)
  expect(archives).toHaveLength(1)

  await bot.stop()
  const began = Date.now()
  await start().says(/connected/)
  expect(Date.now() - began).toBeLessThan(15_000) // a lease takes 30 s to run out
  await echoes('the next one')
  expect(wa.counters.pairings).toBe(2)
})

test('while its lease is not renewed it sends nothing, and then what it was asked meanwhile', async () => {
  const bot = start()
  await bot.says(/connected/)
  await echoes('hello')
  process.kill(sidecar.pid, 'SIGSTOP')
  try {
    await bot.says(/suspended/, 40_000)
    await ana.send('are you there?')
    await expect(ana.nextMessage({ timeoutMs: 2000 })).rejects.toThrow(/within/)
  } finally {
    process.kill(sidecar.pid, 'SIGCONT')
  }
  await bot.says(/resumed/)
  expect((await ana.nextMessage({ timeoutMs: 20_000 })).text).toBe('are you there?')
  await echoes('good')
  expect(wa.counters).toMatchObject({ pairings: 1, logins: 1 })
})

test('a second process waits for the first, and takes over when it has gone', async () => {
  const first = start()
  await first.says(/connected/)
  const second = start()
  await second.says(/another owner|held/i)
  await echoes('one')
  expect(second.output).not.toMatch(/connected/)
  await first.stop()
  await second.says(/connected/)
  await echoes('two')
  expect(wa.counters).toMatchObject({ pairings: 1, conflicts: 0 })
})
