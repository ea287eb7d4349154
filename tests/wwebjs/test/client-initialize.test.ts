// The real Client of 1.34.7 with HardenedRemoteAuth, in Chromium, on a local page in the place of web.whatsapp.com.
import { copyFileSync, existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { connect, type Pannier } from 'pannier'
import { HardenedRemoteAuth, PannierStore, type HardenedRemoteAuthOptions } from 'pannier/wwebjs'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { Sidecar } from '../../../clients/ts/tests/support/sidecar.js'
import { chromium, launchOptions } from '../src/chromium.js'
import { until } from '../src/until.js'
import { library, type StockRemoteAuth, type WebClient } from '../src/versions.js'

interface Identity {
  keys: { identity: string; noise: string } | undefined
  media: number | undefined
  token: string | null
}

let sidecar: Sidecar
let pannier: Pannier
let work: string
const clients: WebClient[] = []
let names = 0

beforeAll(async () => {
  sidecar = await Sidecar.start()
  pannier = await connect({ address: sidecar.address })
  work = mkdtempSync(join(tmpdir(), 'pannier-wwebjs-'))
  mkdirSync(join(work, 'pages'))
  copyFileSync(fileURLToPath(new URL('../src/whatsapp-web.html', import.meta.url)), join(work, 'pages/2.3000.0.html'))
})
afterAll(async () => {
  for (const client of clients) await client.destroy()
  await pannier?.close()
  await sidecar?.stop()
  rmSync(work, { recursive: true, force: true, maxRetries: 10, retryDelay: 50 })
})

interface Running {
  client: WebClient
  auth: HardenedRemoteAuth
  errors: Error[]
  events: string[]
  identity(): Promise<Identity>
}

async function start(clientId: string, options: Partial<HardenedRemoteAuthOptions> = {}): Promise<Running> {
  const { Client } = library('1.34.7')
  const errors: Error[] = []
  const auth = new HardenedRemoteAuth({
    store: new PannierStore(pannier), clientId, dataPath: join(work, clientId), onError: error => errors.push(error), ...options,
  })
  const client = new Client({
    authStrategy: auth, puppeteer: launchOptions, webVersion: '2.3000.0', authTimeoutMs: 20_000,
    webVersionCache: { type: 'local', path: join(work, 'pages'), strict: true },
  })
  clients.push(client)
  const events: string[] = []
  for (const name of ['qr', 'ready', 'disconnected', 'remote_session_saved']) client.on(name, () => events.push(name))
  await client.initialize()
  return { client, auth, errors, events, identity: () => client.pupPage.evaluate<Identity>('window.identity()') }
}

const becomes = (events: string[], name: string): Promise<void> => until(`${name} after ${events.join()}`, () => events.includes(name))

/** Paired, and backed up once. */
async function paired(clientId: string, options: Partial<HardenedRemoteAuthOptions> = {}): Promise<Running & { who: Identity }> {
  const running = await start(clientId, options)
  await becomes(running.events, 'qr')
  await running.client.pupPage.evaluate('window.pair()')
  await becomes(running.events, 'ready')
  const who = await running.identity()
  if (options.firstBackupAfter === undefined) {
    // Chrome writes localStorage to disk about five seconds late.
    const stored = () => readdirSync(join(running.auth.userDataDir, 'Default/Local Storage/leveldb'))
      .some(name => readFileSync(join(running.auth.userDataDir, 'Default/Local Storage/leveldb', name)).includes(who.token ?? ''))
    await until('localStorage is on disk', stored)
    await running.auth.backup()
  }
  await becomes(running.events, 'remote_session_saved')
  return { ...running, who }
}

/** Until it is gone: processes of a killed browser may still write. */
async function wipe(clientId: string): Promise<void> {
  await until('the data path is wiped', () => {
    try {
      rmSync(join(work, clientId), { recursive: true, force: true })
      return true
    } catch {
      return false
    }
  })
}

// Side by side: most of their time is Chrome's, which waits before it writes.
describe.skipIf(!chromium).concurrent('Client.initialize() of 1.34.7', () => {
  test('a paired client comes back with the same keys after its data path was wiped', async () => {
    const name = `bot-${++names}`
    const first = await paired(name)
    expect(first.who.token).toMatch(/^[0-9a-f]{64}$/)
    await first.client.destroy()
    await wipe(name)

    const second = await start(name)
    await becomes(second.events, 'ready')
    expect(await second.identity()).toEqual(first.who)
    expect(second.events).not.toContain('qr')
    expect([...first.errors, ...second.errors]).toEqual([])
  })

  // whatsapp-web.js #1450 (review), devlikeapro/waha #584: closed before the first backup, the session was lost.
  test('a client destroyed right after it was paired comes back', async () => {
    const name = `bot-${++names}`
    const first = await start(name)
    await becomes(first.events, 'qr')
    await first.client.pupPage.evaluate('window.pair()')
    await becomes(first.events, 'ready')
    const who = await first.identity()
    await first.client.destroy()
    expect(first.events).toContain('remote_session_saved')
    expect(await pannier.blobs.generations(first.auth.sessionName)).toHaveLength(1)
    await wipe(name)

    const second = await start(name)
    await becomes(second.events, 'ready')
    expect(await second.identity()).toEqual(who)
  })

  // devlikeapro/waha #584, #1017: killed within the first minute.
  test('a client killed soon after its first, early backup comes back', async () => {
    const name = `bot-${++names}`
    const first = await paired(name, { lease: false, firstBackupAfter: '10s' })
    expect((await pannier.blobs.stat(first.auth.sessionName)).blob?.labels).toEqual({ provisional: 'true' })
    process.kill(first.client.pupBrowser.process()?.pid ?? 0, 'SIGKILL')
    await until('the browser has gone', () => !first.client.pupBrowser.isConnected())
    await wipe(name)

    const second = await start(name, { lease: false })
    await becomes(second.events, 'ready')
    expect(await second.identity()).toEqual(first.who)
  })

  test('a conflict with another browser ends the client and does not lose the session', async () => {
    const name = `bot-${++names}`
    const first = await paired(name)
    await first.client.pupPage.evaluate('window.conflict()').catch(() => {})
    await becomes(first.events, 'disconnected')
    await until('the browser has gone', () => !first.client.pupBrowser.isConnected())
    expect((await pannier.blobs.stat(first.auth.sessionName)).blob).toBeDefined()

    const second = await start(name)
    await becomes(second.events, 'ready')
    expect(await second.identity()).toEqual(first.who)
    expect([...first.errors, ...second.errors]).toEqual([])
  })

  // evolution-api #79: after a logout the stale record stood in the way of a new QR code. OpenWA #1072: what was logged out can be looked at.
  test('a logout deletes softly: the next start asks for a QR code, and the archive can be brought back', async () => {
    const name = `bot-${++names}`
    const first = await paired(name)
    const generations = (await pannier.blobs.generations(first.auth.sessionName)).length
    await first.client.logout()
    expect((await pannier.blobs.stat(first.auth.sessionName)).blob).toBeUndefined()
    expect(existsSync(first.auth.userDataDir)).toBe(false)

    const second = await start(name)
    await becomes(second.events, 'qr')
    await second.client.destroy()
    const kept = await pannier.blobs.generations(first.auth.sessionName)
    expect(kept.map(generation => generation.state)).toEqual(Array.from({ length: generations }, () => 'deleted'))

    await pannier.blobs.restore(first.auth.sessionName)
    const third = await start(name)
    await becomes(third.events, 'ready')
    expect(await third.identity()).toEqual(first.who)
  })

  test('a logout from the phone deletes softly, and the client that pairs again is backed up again', async () => {
    const name = `bot-${++names}`
    const first = await paired(name)
    const { length } = first.events
    await first.client.pupPage.evaluate('window.revoke()').catch(() => {})
    await until('a new QR code', () => first.events.slice(length).join() === 'disconnected,qr')
    expect((await pannier.blobs.stat(first.auth.sessionName)).blob).toBeUndefined()

    await first.client.pupPage.evaluate('window.pair()')
    await until('ready again', () => first.events.slice(length).includes('ready'))
    const who = await first.identity()
    await first.client.destroy()
    await wipe(name)
    const second = await start(name)
    await becomes(second.events, 'ready')
    expect(await second.identity()).toEqual(who)
    expect(who.token).not.toBe(first.who.token)
  })

  test('an unpaired client is not backed up over its last good session', async () => {
    const name = `bot-${++names}`
    const first = await paired(name)
    const before = (await pannier.blobs.stat(first.auth.sessionName)).blob?.generation
    await first.client.pupPage.evaluate('window.unpair()').catch(() => {})
    await becomes(first.events, 'disconnected')
    await first.client.destroy()
    expect((await pannier.blobs.stat(first.auth.sessionName)).blob?.generation).toBe(before)
  })

  test('the stock RemoteAuth on a PannierStore comes back too, also after a conflict', async () => {
    const { Client, RemoteAuth } = library('1.34.7')
    const name = `stock-${++names}`
    const dataPath = join(work, name)
    const run = async (): Promise<{ client: WebClient; auth: StockRemoteAuth; events: string[] }> => {
      const store = new PannierStore(pannier, { dataPath, saveErrors: 'throw', onDelete: 'keep' })
      const auth = new RemoteAuth({ clientId: name, dataPath, store, backupSyncIntervalMs: 60_000 })
      // It would store a minute later, whether or not it was destroyed.
      auth.delay = () => new Promise(() => {})
      const client = new Client({
        authStrategy: auth, puppeteer: launchOptions, webVersion: '2.3000.0', authTimeoutMs: 20_000,
        webVersionCache: { type: 'local', path: join(work, 'pages'), strict: true },
      })
      clients.push(client)
      const events: string[] = []
      for (const event of ['qr', 'ready', 'disconnected']) client.on(event, () => events.push(event))
      await client.initialize()
      return { client, auth, events }
    }
    const first = await run()
    await becomes(first.events, 'qr')
    await first.client.pupPage.evaluate('window.pair()')
    await becomes(first.events, 'ready')
    const who = await first.client.pupPage.evaluate<Identity>('window.identity()')
    // A closed browser has written everything, which this class does not wait for.
    await first.client.destroy()
    await first.auth.storeRemoteSession()
    await wipe(name)

    const second = await run()
    await becomes(second.events, 'ready')
    await second.client.pupPage.evaluate('window.conflict()').catch(() => {})
    await becomes(second.events, 'disconnected')
    await until('the browser has gone', () => !second.client.pupBrowser.isConnected())

    const third = await run()
    await becomes(third.events, 'ready')
    expect(await third.client.pupPage.evaluate<Identity>('window.identity()')).toEqual(who)
  })
})
