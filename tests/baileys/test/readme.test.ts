// What the READMEs show is what people copy: it has to compile, and to live through what a bot lives through.
import { afterEach, beforeEach, expect, test } from 'vitest'
import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import type { Pannier } from 'pannier'
import { usePannierAuthState } from 'pannier/baileys'
import { type FakeWhatsApp, type Peer, startFakeWhatsApp } from '../src/fake-whatsapp.js'
import { logger } from '../src/logger.js'
import { connectTo } from '../src/pannier-store.js'
import { compiled, firstSample, ReadmeBot } from '../src/readme-bot.js'
import { Sidecar } from '../src/sidecar.js'

let wa: FakeWhatsApp
let peer: Peer
let sidecar: Sidecar
let pannier: Pannier
let bot: ReadmeBot | undefined

beforeEach(async () => {
  wa = await startFakeWhatsApp()
  peer = wa.addPeer('15550001111@s.whatsapp.net')
  sidecar = await Sidecar.start()
  pannier = await connectTo(sidecar)
})

afterEach(async context => {
  await bot?.stop()
  if (context.task.result?.state === 'fail') console.log(bot?.output)
  bot = undefined
  await pannier?.close()
  await sidecar?.stop()
  await wa.close()
  expect(wa.errors).toEqual([])
})

/** Logged in, and it answers. */
async function pong(logins: number): Promise<void> {
  await expect.poll(() => wa.counters.logins, { timeout: 30_000 }).toBe(logins)
  await peer.send('ping')
  expect((await peer.nextMessage({ timeoutMs: 20_000 })).text).toBe('pong')
  expect(bot?.running).toBe(true)
}

test('the short sample of the main README compiles', async () => {
  await compiled(await firstSample('README.md'))
})

test('linked from its folder, as npm installs it, the client makes keys of the class that the program has', async () => {
  // In a process of its own: two Baileys in one share protobufjs' roots, and then make each other's classes.
  const program = `
    import { proto } from 'baileys'
    import { connect } from 'pannier'
    import { usePannierAuthState } from 'pannier/baileys'
    const { AppStateSyncKeyData } = proto.Message
    const pannier = await connect()
    const { state } = await usePannierAuthState(pannier, 'keys')
    await state.keys.set({ 'app-state-sync-key': { a: AppStateSyncKeyData.create({ keyData: Buffer.from('key') }) } })
    console.log((await state.keys.get('app-state-sync-key', ['a'])).a instanceof AppStateSyncKeyData)
    await pannier.close()`
  const env = { ...process.env, PANNIER_ADDRESS: sidecar.address }
  const cwd = fileURLToPath(new URL('..', import.meta.url))
  const { stdout } = await promisify(execFile)(process.execPath, ['--input-type=module', '-e', program], { cwd, env, timeout: 30_000 })
  expect(stdout).toBe('true\n')
})

test('the bot of the README pairs, and lives through lost connections, kills, a take-over and a log-out', { timeout: 180_000 }, async () => {
  bot = await ReadmeBot.start(wa, sidecar.address)
  await pong(1)

  wa.dropConnections()
  await pong(2)

  await sidecar.kill()
  await peer.send('ping')
  await new Promise(resolve => setTimeout(resolve, 2000))
  sidecar.run()
  expect((await peer.nextMessage({ timeoutMs: 20_000 })).text).toBe('pong')

  await sidecar.killValkey()
  await pong(2)

  // Another process takes the session; this one waits for it, and has it back when the other has gone.
  const other = await usePannierAuthState(pannier, 'bot-1', { onHeld: 'takeOver', owner: 'another', logger })
  await expect.poll(() => bot?.output, { timeout: 10_000 }).toMatch(/the connection ended: .*took the session/)
  await new Promise(resolve => setTimeout(resolve, 3000))
  expect(other.suspended).toBe(false)
  await other.close()
  await pong(3)
  expect(wa.counters).toMatchObject({ pairings: 1, refused: 0, conflicts: 0 })

  wa.removeBots()
  await expect.poll(() => wa.counters.pairings, { timeout: 30_000 }).toBe(2)
  await pong(4)
  expect(bot.output).toMatch(/logged out: the session is an archive now/)
  const archives = []
  for await (const archive of pannier.sessions.deleted('bot-1')) archives.push(archive)
  expect(archives).toHaveLength(1)

  // What is left for the next process: no lease to wait for.
  expect(await bot.stop()).toBe(0)
  expect((await pannier.sessions.info('bot-1'))?.lease?.live ?? false).toBe(false)
})

test('it lives through an outage that is longer than everything waits', { timeout: 180_000 }, async () => {
  bot = await ReadmeBot.start(wa, sidecar.address)
  await pong(1)
  await sidecar.kill()
  wa.dropConnections()
  await expect.poll(() => bot?.output, { timeout: 60_000 }).toMatch(/UnavailableError|DeadlineExceededError/)
  expect(bot.running).toBe(true)
  sidecar.run()
  await pong(2)
  expect(wa.counters).toMatchObject({ pairings: 1, refused: 0 })
})
