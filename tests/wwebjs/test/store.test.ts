// PannierStore by itself: what whatsapp-web.js passes, what it may be given, and what must not happen.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { copyFileSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, utimesSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { connect, type Pannier, type PannierError } from 'pannier'
import { PannierStore, restoreDir, snapshotDir, type PannierStoreOptions } from 'pannier/wwebjs'
import { beforeEach, describe, expect, test } from 'vitest'
import { Sidecar } from '../../../clients/ts/tests/support/sidecar.js'
import { makeProfile, put, tree } from '../src/profile.js'
import { newId, useSetting } from '../src/setting.js'
import { stock } from '../src/stock.js'

const here = useSetting()
let zip: string
let other: string

function store(options: PannierStoreOptions = {}): PannierStore {
  return new PannierStore(here.pannier, { dataPath: here.dataPath, saveErrors: 'throw', retryFor: 2000, ...options })
}

/** A good archive, as the stock class makes them. */
async function archive(path: string): Promise<string> {
  const auth = await stock('1.34.7', 'maker', join(here.work, 'maker'), store())
  makeProfile(auth.userDataDir, { files: 2 })
  const made = await (auth as unknown as { compressSession(): Promise<string> }).compressSession()
  copyFileSync(made, path)
  return path
}

beforeEach(async () => {
  mkdirSync(here.dataPath)
  zip = await archive(join(here.work, 'good.zip'))
  other = await archive(join(here.work, 'other.zip'))
})

async function extracted(session: string, from = store()): Promise<Buffer> {
  const path = join(here.work, 'out', `${Math.random()}.zip`)
  await from.extract({ session, path })
  return readFileSync(path)
}

describe('save', () => {
  // whatsapp-web.js #201660: stored under an absolute path, not found under the bare name.
  test('an absolute path and a bare name are one session', async () => {
    const id = newId()
    const folder = join(here.work, 'a/b')
    mkdirSync(folder, { recursive: true })
    copyFileSync(zip, join(folder, `${id}.zip`))
    await store().save({ session: join(folder, id) })
    expect(await store().sessionExists({ session: id })).toBe(true)
    expect(await extracted(id)).toEqual(readFileSync(zip))
  })

  // whatsapp-web.js #201887: the interface that is proposed.
  test('a path that is passed comes first', async () => {
    const id = newId()
    copyFileSync(other, join(here.dataPath, `${id}.zip`))
    mkdirSync(join(here.work, 'elsewhere'))
    copyFileSync(zip, join(here.work, 'elsewhere/z.zip'))
    await store().save({ session: id, path: join(here.work, 'elsewhere/z.zip') })
    expect(await extracted(id)).toEqual(readFileSync(zip))
  })

  // whatsapp-web.js #3724: what a killed process left behind was taken for the backup.
  test('a leftover zip of another version is not taken for the one just made', async () => {
    const id = newId()
    copyFileSync(other, join(here.dataPath, `${id}.zip`))
    utimesSync(join(here.dataPath, `${id}.zip`), new Date(), new Date(Date.now() - 3_600_000))
    copyFileSync(zip, join(here.cwd, `${id}.zip`))
    await store().save({ session: id })
    expect(await extracted(id)).toEqual(readFileSync(zip))
  })

  // whatsapp-web.js #201726, #201751: ENOENT ended the process, or said nothing.
  test('without a zip anywhere is one rejection, or one report, that names every place', async () => {
    const id = newId()
    const places = [join(here.work, 'given.zip'), join(here.work, 'abs', `${id}.zip`), join(here.dataPath, `${id}.zip`), join(here.cwd, `${id}.zip`)]
    const request = { session: join(here.work, 'abs', id), path: join(here.work, 'given.zip') }
    const failure = await store().save(request).then(() => undefined, (error: PannierError) => error)
    for (const place of places) expect(failure?.message).toContain(place)
    expect(failure?.reason).toBe('SOURCE_UNREADABLE')

    const told: unknown[] = []
    await store({ saveErrors: 'report', onError: (error, operation, session) => told.push([error.message, operation, session]) }).save(request)
    expect(told).toEqual([[failure?.message, 'save', id]])
    // A listener that throws ends nothing either.
    await store({ saveErrors: 'report', onError: () => { throw new Error('mine') } }).save(request)
  })

  // devlikeapro/waha #457, #465, #676; whatsapp-web.js #2667, #2631: broken and empty archives took the place of good ones.
  test('of a broken or empty archive is refused, and the last good one stays', async () => {
    const id = newId()
    await store().save({ session: id, path: zip })
    const good = readFileSync(zip)
    const flipped = Buffer.from(good)
    flipped[2000] = (flipped[2000] ?? 0) ^ 4
    const empty = Buffer.alloc(22)
    empty.write('PK\x05\x06', 'latin1')
    const bad = [good.subarray(0, -22), good.subarray(0, good.length / 2), Buffer.alloc(0), Buffer.from('<html>'.repeat(50)), flipped, empty]
    for (const [index, bytes] of bad.entries()) {
      const path = join(here.work, `bad-${index}.zip`)
      writeFileSync(path, bytes)
      await expect(store().save({ session: id, path }), `${index}`).rejects.toMatchObject({ name: 'BadArchiveError' })
    }
    expect(await extracted(id)).toEqual(good)
    expect(await here.pannier.blobs.generations(id)).toHaveLength(1)
  })

  test('of an archive that is written to meanwhile is refused', async () => {
    const id = newId()
    await store().save({ session: id, path: zip })
    const path = join(here.work, 'changing.zip')
    copyFileSync(other, path)
    const writing = setInterval(() => utimesSync(path, new Date(), new Date(Math.random() * 1e12)), 1)
    await expect(store().save({ session: id, path })).rejects.toMatchObject({ reason: 'SOURCE_CHANGED' }).finally(() => clearInterval(writing))
    expect(await extracted(id)).toEqual(readFileSync(zip))
  })
})

describe('names', () => {
  // devlikeapro/waha #1017: a logout with an empty name removed all sessions.
  test('that stand for none or many are refused everywhere, and nothing is removed', async () => {
    const id = newId()
    await store().save({ session: id, path: zip })
    for (const session of ['', '.', '..', '/', 'a/..', 'line\nbreak', 'nul\0', 'x'.repeat(257), 7, undefined, null] as string[]) {
      const refused = { name: 'BadRequestError', code: 'INVALID_ARGUMENT', field: 'session' }
      await expect(store().delete({ session })).rejects.toMatchObject(refused)
      await expect(store().save({ session, path: zip })).rejects.toMatchObject(refused)
      await expect(store().sessionExists({ session })).rejects.toMatchObject(refused)
      await expect(store().extract({ session, path: join(here.work, 'x.zip') })).rejects.toMatchObject(refused)
    }
    for (const pattern of ['*', 'bot-?', '[b]*', `${id}*`]) await store().delete({ session: pattern })
    expect(await store().sessionExists({ session: id })).toBe(true)
  })

  // wwebjs.dev #117: the path of extract was not documented.
  test('extract without a path is a TypeError', async () => {
    await expect(store().extract({ session: 'x' } as { session: string; path: string })).rejects.toThrow(TypeError)
    await expect(store().extract({ session: 'x', path: '' })).rejects.toThrow(TypeError)
  })

  // whatsapp-web.js #1926: without a clientId all clients share one name.
  test('namespaces keep clients without a clientId apart, and the default one warns', async () => {
    const warnings: string[] = []
    const listen = (warning: Error): void => void warnings.push((warning as NodeJS.ErrnoException).code ?? '')
    process.on('warning', listen)
    const [first, second] = await Promise.all(['tenant-1', 'tenant-2'].map(namespace => connect({ address: here.sidecar.address, namespace })))
    try {
      const stores = [first, second].map(pannier => new PannierStore(pannier as Pannier, { saveErrors: 'throw' }))
      await stores[0]?.save({ session: 'RemoteAuth', path: zip })
      expect(await stores[1]?.sessionExists({ session: 'RemoteAuth' })).toBe(false)
      await stores[1]?.save({ session: 'RemoteAuth', path: other })
      expect(await extracted('RemoteAuth', stores[0])).toEqual(readFileSync(zip))
      expect(warnings).toEqual([])
      await store().sessionExists({ session: 'RemoteAuth' })
      await expect.poll(() => warnings).toEqual(['PANNIER_SHARED_NAME'])
    } finally {
      process.off('warning', listen)
      await Promise.all([first?.close(), second?.close()])
    }
  })

  test('an unknown option is named, with a suggestion', () => {
    expect(() => store({ onDeleted: 'keep' } as object)).toThrow(/did you mean `onDelete`/)
    expect(() => store({ onDelete: 'hard' } as object)).toThrow(/'soft' or 'keep'/)
  })
})

describe('extract', () => {
  test('of what is not there rejects, and makes no file', async () => {
    await expect(store().extract({ session: newId(), path: join(here.work, 'none.zip') })).rejects.toMatchObject({ name: 'NotFoundError' })
    expect(existsSync(join(here.work, 'none.zip'))).toBe(false)
  })

  // whatsapp-web.js #2430: one client came up with the account of another.
  test("of a session whose bytes were replaced with another's rejects", async () => {
    const client = here.sidecar.valkey.client
    const parts = async (): Promise<string[]> => (await client.keys('*')).filter(key => /:b:\d+:\d+$/.test(key)).sort()
    const before = new Set(await parts())
    const [one, two] = [newId(), newId()]
    await store().save({ session: one, path: zip })
    const first = (await parts()).filter(key => !before.has(key))
    await store().save({ session: two, path: zip })
    const second = (await parts()).filter(key => !before.has(key) && !first.includes(key))
    expect(first.length).toBe(second.length)
    for (const [index, key] of first.entries()) await client.copy(key, second[index] ?? '', 'REPLACE')
    await expect(extracted(two)).rejects.toMatchObject({ name: 'CorruptBlobError' })
    expect(await extracted(one)).toEqual(readFileSync(zip))
  })

  // whatsapp-web.js #3724: killed half-way, half a file was there with the right name.
  test('killed half-way leaves no file of that name, and the next one cleans up behind it', async () => {
    const slow = await Sidecar.start({ args: ['--bulk-rate', '4MiB'] })
    try {
      const pannier = await connect({ address: slow.address })
      const big = join(here.work, 'profile')
      makeProfile(big, { files: 20, size: 200_000 })
      await snapshotDir(pannier, 'killed', big, { folders: ['Default/IndexedDB'] })
      const path = join(here.work, 'kill/killed.zip')
      const child = spawn(process.execPath, [new URL('../src/extractor.mjs', import.meta.url).pathname, slow.address, 'killed', path], { stdio: 'ignore' })
      const part = (): string => (existsSync(join(path, '..')) ? readdirSync(join(path, '..')) : []).find(name => name.includes('.part-')) ?? ''
      await expect.poll(() => (part() ? statSync(join(path, '..', part())).size : 0), { timeout: 10_000, interval: 20 }).toBeGreaterThan(300_000)
      child.kill('SIGKILL')
      await once(child, 'exit')
      expect(existsSync(path)).toBe(false)
      expect(part()).not.toBe('')
      await pannier.blobs.fetch('killed', path)
      expect(readdirSync(join(path, '..'))).toEqual(['killed.zip'])
      await pannier.close()
    } finally {
      await slow.stop()
    }
  })
})

describe('sessionExists and delete', () => {
  test('an outage is never "no": it waits, then rejects', async () => {
    const id = newId()
    await store().save({ session: id, path: zip })
    const down = await Sidecar.start()
    const pannier = await connect({ address: down.address })
    await down.kill9()
    const cut = new PannierStore(pannier, { retryFor: 500, onError: error => told.push(error) })
    const told: Error[] = []
    await expect(cut.sessionExists({ session: id })).rejects.toMatchObject({ name: 'UnavailableError' })
    // A rejecting delete would leave the client half disconnected.
    await cut.delete({ session: id })
    expect(told).toHaveLength(1)
    const answer = new PannierStore(pannier, { retryFor: 20_000 }).sessionExists({ session: id })
    down.run()
    expect(await answer).toBe(false)
    await pannier.close()
    await down.stop()
  })

  // evolution-api #79: what was logged out stood in the way. rmyndharis/OpenWA #1072: and was gone for good.
  test('after a delete there is none, at once; then a new one; and the old one can still be looked at', async () => {
    const id = newId()
    await store().save({ session: id, path: zip })
    await store().delete({ session: id })
    expect(await store().sessionExists({ session: id })).toBe(false)
    await store().delete({ session: id })
    await store().save({ session: id, path: other })
    expect(await store().sessionExists({ session: id })).toBe(true)
    expect((await here.pannier.blobs.generations(id)).map(({ state }) => state)).toEqual(['current', 'deleted'])
  })

  // whatsapp-web.js #3339, jtouris/wwebjs-mongo #8: the session was not in the database, and nothing said why.
  test('status tells of the last save and of the last failure', async () => {
    const id = newId()
    await expect(store().status(id)).resolves.toMatchObject({ blob: undefined, lastError: undefined })
    const mine = store()
    await mine.save({ session: id, path: zip })
    await expect(mine.save({ session: id })).rejects.toThrow()
    const status = await mine.status(`/any/path/${id}`)
    expect(status.blob).toMatchObject({ blob: id, size: statSync(zip).size, state: 'current' })
    expect(status.blob?.savedAt?.getTime()).toBeGreaterThan(Date.now() - 60_000)
    expect(status.lastError).toMatchObject({ reason: 'SOURCE_UNREADABLE', message: expect.stringContaining(here.dataPath) as string })
  })
})

describe('a folder of any library', () => {
  // wppconnect #2426, #1971, #516: wants its userDataDir in a store.
  test('is stored, wiped and put back as it was', async () => {
    const id = newId()
    const folder = join(here.work, 'tokens/session-1')
    makeProfile(folder, { files: 5 })
    put(folder, 'Default/Preferences', '{"a":"ä"}')
    put(folder, 'Default/Ordner mit Umlaut ü/日本.txt', 'x')
    const before = tree(folder)
    expect(await snapshotDir(here.pannier, id, folder, { labels: { library: 'wppconnect' } })).toMatchObject({ outcome: 'saved', blob: { labels: { library: 'wppconnect' } } })
    expect(await snapshotDir(here.pannier, id, folder)).toMatchObject({ outcome: 'unchanged' })
    rmSync(folder, { recursive: true })
    await restoreDir(here.pannier, id, folder)
    expect(tree(folder)).toEqual(before)
    // Also over what is there: nothing of it stays, and nothing is left beside it.
    put(folder, 'Default/new', 'x')
    await restoreDir(here.pannier, id, folder)
    expect(tree(folder)).toEqual(before)
    expect(readdirSync(join(folder, '..'))).toEqual(['session-1'])
  })

  test('that cannot be put back stays as it is', async () => {
    const folder = join(here.work, 'profile')
    makeProfile(folder, { files: 1 })
    const before = tree(folder)
    await expect(restoreDir(here.pannier, newId(), folder)).rejects.toMatchObject({ name: 'NotFoundError' })
    const id = newId()
    await here.pannier.blobs.save(id, [Buffer.from('not a zip')])
    await expect(restoreDir(here.pannier, id, folder)).rejects.toMatchObject({ name: 'BadArchiveError' })
    expect(tree(folder)).toEqual(before)
    expect(readdirSync(here.work).filter(name => name.startsWith('profile'))).toEqual(['profile'])
    await expect(snapshotDir(here.pannier, id, join(here.work, 'nothing'))).rejects.toThrow()
    mkdirSync(join(here.work, 'empty'))
    await expect(snapshotDir(here.pannier, id, join(here.work, 'empty'))).rejects.toMatchObject({ name: 'BadArchiveError' })
  })

  // tuhinpal/WhatsBot #63: a session to take along.
  test('goes from one sidecar to another as a file', async () => {
    const id = newId()
    const folder = join(here.work, 'profile')
    makeProfile(folder, { files: 2 })
    await snapshotDir(here.pannier, id, folder)
    const second = await Sidecar.start()
    const pannier = await connect({ address: second.address, namespace: 'moved' })
    await here.pannier.blobs.fetch(id, join(here.work, 'portable.zip'))
    await pannier.blobs.save(id, join(here.work, 'portable.zip'))
    await restoreDir(pannier, id, join(here.work, 'moved'))
    expect(tree(join(here.work, 'moved'))).toEqual(tree(folder))
    await pannier.close()
    await second.stop()
  })
})
