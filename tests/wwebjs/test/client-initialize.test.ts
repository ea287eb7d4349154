// The real Client of 1.34.7 with HardenedRemoteAuth, in Chromium, on a local page in the place of web.whatsapp.com.
import { copyFileSync, existsSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { connect, type Pannier } from 'pannier'
import { HardenedRemoteAuth, PannierStore, type HardenedRemoteAuthOptions } from 'pannier/wwebjs'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { Sidecar } from '../../../clients/ts/tests/support/sidecar.js'
import { chromium, launchOptions } from '../src/chromium.js'
import { library, type WebClient } from '../src/versions.js'

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
})
afterAll(async () => {
  await pannier?.close()
  await sidecar?.stop()
})
beforeEach(() => {
  work = mkdtempSync(join(tmpdir(), 'pannier-wwebjs-'))
  mkdirSync(join(work, 'pages'))
  copyFileSync(fileURLToPath(new URL('../src/whatsapp-web.html', import.meta.url)), join(work, 'pages/2.3000.0.html'))
})
afterEach(async () => {
  for (const client of clients.splice(0)) await client.destroy()
  rmSync(work, { recursive: true, force: true })
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
    store: new PannierStore(pannier), clientId, dataPath: join(work, 'auth'), onError: error => errors.push(error), ...options,
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

const becomes = (events: string[], name: string) => expect.poll(() => events, { timeout: 15_000 }).toContain(name)

/** Paired, and with its first backup stored. */
async function paired(clientId: string, options: Partial<HardenedRemoteAuthOptions> = {}): Promise<Running & { who: Identity }> {
  const running = await start(clientId, { firstBackupAfter: 100, ...options })
  await becomes(running.events, 'qr')
  await running.client.pupPage.evaluate('window.pair()')
  await becomes(running.events, 'ready')
  await becomes(running.events, 'remote_session_saved')
  return { ...running, who: await running.identity() }
}

function wipe(): void {
  rmSync(join(work, 'auth'), { recursive: true })
}

describe.skipIf(!chromium)('Client.initialize() of 1.34.7', () => {
  test('a paired client comes back with the same keys after its data path was wiped', async () => {
    const name = `bot-${++names}`
    const first = await paired(name)
    expect(first.who.token).toMatch(/^[0-9a-f]{64}$/)
    await first.client.destroy()
    wipe()

    const second = await start(name)
    await becomes(second.events, 'ready')
    expect(await second.identity()).toEqual(first.who)
    expect(second.events).not.toContain('qr')
    expect([...first.errors, ...second.errors]).toEqual([])
  })
})
