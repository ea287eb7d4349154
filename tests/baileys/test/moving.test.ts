// A bot that moves: from a folder of Baileys' own useMultiFileAuthState into Pannier, and back. Not a byte is lost, and wherever
// it is, the next messages decrypt.
import { BufferJSON, newLTHashState, proto, useMultiFileAuthState } from 'baileys'
import { afterEach, beforeEach, expect, test } from 'vitest'
import type { Pannier } from 'pannier'
import { cp, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { AuthStore } from '../src/bot.js'
import { memoryAuthState } from '../src/memory-store.js'
import { connectTo, pannierStates } from '../src/pannier-store.js'
import { Sidecar } from '../src/sidecar.js'
import { badMacs } from '../src/signal-console.js'
import { type Group, Party } from '../src/signal-pairs/party.js'

const VERSION = '7.0.0-rc14'
const PRE_KEYS = 5_000
const TYPES = [
  'app-state-sync-key', 'app-state-sync-version', 'device-list', 'identity-key', 'lid-mapping', 'pre-key', 'sender-key',
  'sender-key-memory', 'session', 'tctoken',
] as const

let folder: string
let sidecar: Sidecar
let pannier: Pannier

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'pannier-moving-'))
  sidecar = await Sidecar.start()
  pannier = await connectTo(sidecar)
})

afterEach(async () => {
  await pannier.close()
  await sidecar.stop()
  await rm(folder, { recursive: true })
})

/** Every file of a folder. */
async function read(path: string): Promise<Map<string, Buffer>> {
  const names = (await readdir(path)).sort()
  return new Map(await Promise.all(names.map(async name => [name, await readFile(join(path, name))] as const)))
}

function expectSame(one: Map<string, Buffer>, other: Map<string, Buffer>): void {
  expect([...other.keys()]).toEqual([...one.keys()])
  for (const [name, content] of one) expect(other.get(name)?.equals(content), name).toBe(true)
}

/** A bot and those it talks to, in person and in two groups: one with an id of each kind. */
class Circle {
  openStore: () => Promise<AuthStore> = () => useMultiFileAuthState(join(folder, 'auth'))
  readonly bot = new Party('bot', '4915550000', VERSION, () => this.openStore())
  readonly #contacts = Array.from({ length: 6 }, (_, n) => {
    const state = memoryAuthState()
    return new Party(`contact-${n}`, `491556000${n}`, VERSION, async () => ({ state, saveCreds: async () => undefined }))
  })
  readonly #groups: Group[] = ['4915550000-1512345678@g.us', '120363000000001000@g.us'].map(jid => ({
    jid, members: [this.bot, ...this.#contacts.slice(0, 3)],
  }))
  #said = 0

  async open(): Promise<void> {
    for (const contact of this.#contacts) {
      await contact.open()
      await contact.uploadPreKeys(20)
    }
    await this.bot.open()
    await this.bot.uploadPreKeys(PRE_KEYS)
  }

  /** Everybody says something to everybody, first those around the bot. What is for the bot waits, if `unread`. */
  async talk(unread = false): Promise<void> {
    for (const contact of this.#contacts) await contact.send(this.bot, this.#text())
    for (const group of this.#groups) for (const member of group.members.slice(1)) await member.sendToGroup(group, this.#text())
    if (unread) return
    await this.#deliver()
    for (const contact of this.#contacts) await this.bot.send(contact, this.#text())
    for (const group of this.#groups) await this.bot.sendToGroup(group, this.#text())
    await this.#deliver()
  }

  async #deliver(): Promise<void> {
    for (const party of [this.bot, ...this.#contacts]) {
      for (let next = party.inbox.shift(); next; next = party.inbox.shift()) await party.receive(next)
    }
  }

  #text(): string {
    return `message ${++this.#said}`
  }
}

const SYNC_KEY = Buffer.from([0xff, 0xff, 0xff, 0xfb, 0xef, 0x01]).toString('base64')
const KEY_DATA = Buffer.from(Array.from({ length: 32 }, (_, n) => n * 7))

/** The types that need a phone: in the shapes in which Baileys' socket stores them. */
async function storeSynced({ state }: AuthStore): Promise<void> {
  const { AppStateSyncKeyData } = proto.Message
  const data = { keyData: KEY_DATA, timestamp: 1_700_000_000, fingerprint: { rawId: 7, currentIndex: 1, deviceIndexes: [0, 1] } }
  const key = AppStateSyncKeyData.decode(AppStateSyncKeyData.encode(AppStateSyncKeyData.create(data)).finish())
  await state.keys.set({
    'app-state-sync-key': { [SYNC_KEY]: key, AAAAAJ3C: key },
    'app-state-sync-version': { critical_unblock_low: newLTHashState(), regular: { ...newLTHashState(), version: 3, indexValueMap: { 'a/b=': { valueMac: KEY_DATA } } } },
    tctoken: {
      __index: { token: Buffer.from(JSON.stringify(['99123@lid'])) },
      '99123@lid': { token: Buffer.from([1, 2, 3]), timestamp: '1700000000', senderTimestamp: 1_700_000_001 },
    },
  })
}

test('a folder with all record types moves in and out byte for byte, and its bot goes on in either', { timeout: 240_000 }, async () => {
  const failed = badMacs()
  const [auth, out, later] = ['auth', 'out', 'later'].map(name => join(folder, name)) as [string, string, string]
  const circle = new Circle()
  await circle.open()
  await circle.talk()
  await storeSynced(await useMultiFileAuthState(auth))
  // Under way while the bot moves.
  await circle.talk(true)
  await circle.bot.close()
  const files = await read(auth)
  expect(files.size).toBeGreaterThan(PRE_KEYS)
  for (const type of TYPES) expect([...files.keys()].some(name => name.startsWith(`${type}-`)), type).toBe(true)
  expect([...files.keys()]).toContain(`app-state-sync-key-${SYNC_KEY.replaceAll('/', '__')}.json`)
  expect(SYNC_KEY).toContain('/')

  const said = JSON.parse(await sidecar.cli('import', 'baileys', auth, '--session', 'bot-1', '--json')) as { records: number }
  expect(said.records).toBe(files.size)
  await sidecar.cli('export', 'baileys', out, '--session', 'bot-1')
  expectSame(files, await read(out))

  circle.openStore = () => pannierStates(pannier, VERSION)('bot-1')
  await circle.bot.open()
  await circle.bot.verify()
  const { [SYNC_KEY]: key } = await circle.bot.state.keys.get('app-state-sync-key', [SYNC_KEY])
  expect(Buffer.from(key?.keyData ?? []).equals(KEY_DATA)).toBe(true)
  const { regular } = await circle.bot.state.keys.get('app-state-sync-version', ['regular'])
  expect(regular?.indexValueMap['a/b=']?.valueMac).toEqual(KEY_DATA)
  const { creds } = circle.bot.state
  expect(creds).toEqual(JSON.parse(files.get('creds.json')?.toString() ?? '', BufferJSON.reviver))
  await circle.talk()
  await circle.talk(true)
  await circle.bot.close()

  await sidecar.cli('export', 'baileys', later, '--session', 'bot-1')
  expect(await read(later)).not.toEqual(files)
  circle.openStore = () => useMultiFileAuthState(later)
  await circle.bot.open()
  await circle.bot.verify()
  await circle.talk()
  await circle.bot.close()
  expect(badMacs()).toBe(failed)

  // There and back again, with what Baileys itself has written into our export.
  await sidecar.cli('import', 'baileys', later, '--session', 'bot-2')
  await sidecar.cli('export', 'baileys', join(folder, 'again'), '--session', 'bot-2')
  expectSame(await read(later), await read(join(folder, 'again')))
})

/** Bytes as older releases, msgpack converters and hand-written stores have left them in files. */
test('bytes in every encoding that files have had are read as bytes', async () => {
  const { state, saveCreds } = await useMultiFileAuthState(join(folder, 'auth'))
  await saveCreds()
  const old = join(folder, 'old')
  await cp(join(folder, 'auth'), old, { recursive: true })
  const bytes = [0, 1, 127, 128, 255]
  const forms = {
    1: JSON.stringify({ type: 'Buffer', data: Buffer.from(bytes).toString('base64') }),
    2: JSON.stringify({ type: 'Buffer', data: bytes }),
    3: JSON.stringify(Object.fromEntries(bytes.entries())),
    4: JSON.stringify({ data: bytes, type: 'Buffer' }, null, 2),
  }
  for (const [n, form] of Object.entries(forms)) {
    await writeFile(join(old, `session-${n}.0.json`), form)
    await writeFile(join(old, `pre-key-${n}.json`), `{"private":${form},"public":${form}}`)
  }
  await sidecar.cli('import', 'baileys', old, '--session', 'bot-1')
  const opened = await pannierStates(pannier, VERSION)('bot-1')
  expect(opened.state.creds).toEqual(state.creds)
  const ids = Object.keys(forms)
  const buffer = Buffer.from(bytes)
  expect(await opened.state.keys.get('session', ids.map(id => `${id}.0`))).toEqual(Object.fromEntries(ids.map(id => [`${id}.0`, buffer])))
  expect(await opened.state.keys.get('pre-key', ids)).toEqual(Object.fromEntries(ids.map(id => [id, { private: buffer, public: buffer }])))
  await opened.close()
  await sidecar.cli('export', 'baileys', join(folder, 'out'), '--session', 'bot-1')
  expectSame(await read(old), await read(join(folder, 'out')))
})
