// Pictures of a profile in use, against a LevelDB that is rearranged while it is looked at.

import { appendFileSync, existsSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { sweep, withPart } from '../../../src/leftovers.js'
import { sessionKey } from '../../../src/wwebjs/key.js'
import { SESSION_FOLDERS } from '../../../src/wwebjs/layout.js'
import type { PackEntry } from '../../../src/wwebjs/pack.js'
import { stageProfile } from '../../../src/wwebjs/stage.js'

let work: string
let profile: string
const DATABASE = 'Default/IndexedDB/https_web.whatsapp.com_0.indexeddb.leveldb'
const BLOBS = 'Default/IndexedDB/https_web.whatsapp.com_0.indexeddb.blob/1/00'

beforeEach(() => {
  work = mkdtempSync(join(tmpdir(), 'pannier-stage-'))
  profile = join(work, 'profile')
  put(`${DATABASE}/CURRENT`, 'MANIFEST-000001\n')
  put(`${DATABASE}/MANIFEST-000001`, '3\n')
  put(`${DATABASE}/000003.ldb`, 'table 3')
  put(`${DATABASE}/000004.log`, 'one\n')
  put(`${DATABASE}/LOCK`, '')
  put(`${DATABASE}/LOG`, 'noise')
})
afterEach(() => rmSync(work, { recursive: true }))

function put(name: string, content: string): void {
  mkdirSync(join(profile, name, '..'), { recursive: true })
  writeFileSync(join(profile, name), content)
}

const stage = (folders: readonly string[] = SESSION_FOLDERS, noise = false): Promise<PackEntry[]> => stageProfile(profile, folders, join(work, `stage-${Math.random()}`), noise)
const content = ({ path, size }: PackEntry): string => readFileSync(path).subarray(0, size).toString()

test('what is written later does not show', async () => {
  const entries = await stage()
  appendFileSync(join(profile, DATABASE, '000004.log'), 'two\n')
  appendFileSync(join(profile, DATABASE, 'MANIFEST-000001'), '5\n')
  rmSync(join(profile, DATABASE, '000003.ldb'))
  expect(entries.map(entry => [entry.name.slice(DATABASE.length + 1), content(entry)])).toEqual([
    ['000003.ldb', 'table 3'], ['000004.log', 'one\n'], ['CURRENT', 'MANIFEST-000001\n'], ['MANIFEST-000001', '3\n'],
  ])
})

// Chrome begins a new folder with each 256th Blob.
test('a folder of Blobs that is made meanwhile is there if the database names what is in it', async () => {
  for (let n = 0; n < 255; n++) put(`${BLOBS}/${n.toString(16)}`, 'blob')
  const files = join(work, 'stage')
  const staged = stageProfile(profile, SESSION_FOLDERS, files)
  // The folders have been listed when the first file is taken.
  while (!existsSync(files)) await new Promise(resolve => setImmediate(resolve))
  const later = `${BLOBS.slice(0, -2)}01/100`
  put(later, 'blob 256')
  appendFileSync(join(profile, DATABASE, '000004.log'), `names ${later}\n`)
  const entries = new Map((await staged).map(entry => [entry.name, content(entry)]))
  expect(entries.get(`${DATABASE}/000004.log`)).toContain(later)
  expect(entries.get(later)).toBe('blob 256')
})

describe.each([['links', tmpdir()], ['copies', '/dev/shm']])('over %s', (_, place) => {
  let files: string
  beforeEach(() => {
    files = mkdtempSync(join(place, 'pannier-stage-'))
  })
  afterEach(() => rmSync(files, { recursive: true }))

  // Chrome makes the file, writes it, and then has the database name it.
  test.runIf(existsSync(place))('a Blob that is being written when it is met is whole if the database names it', async () => {
    put(`${BLOBS}/1`, '')
    put(`${BLOBS}/2`, 'the beg')
    const staged = stageProfile(profile, SESSION_FOLDERS, join(files, 'files'))
    while (!existsSync(join(files, 'files', '2'))) await new Promise(resolve => setImmediate(resolve))
    put(`${BLOBS}/1`, 'all')
    put(`${BLOBS}/2`, 'the beginning and the end')
    appendFileSync(join(profile, DATABASE, '000004.log'), 'names both\n')
    const entries = new Map((await staged).map(entry => [entry.name, content(entry)]))
    expect(entries.get(`${DATABASE}/000004.log`)).toContain('names both')
    expect([1, 2].map(n => entries.get(`${BLOBS}/${n}`))).toEqual(['all', 'the beginning and the end'])
  })
})

// The databases of other pages, which change all the time, take seconds to picture.
test('a Blob that comes after the first look and goes before the last is there if the database names it', async () => {
  const other = 'Default/Local Storage/leveldb'
  put(`${other}/CURRENT`, 'MANIFEST-000001\n')
  put(`${other}/MANIFEST-000001`, '')
  put(`${BLOBS}/1`, 'blob 1')
  const log = join(profile, DATABASE, '000004.log')
  const isLinked = (path: string): boolean => statSync(path).nlink > 1
  let busy = true
  const spin = (): void => {
    if (!busy) return
    appendFileSync(join(profile, other, 'MANIFEST-000001'), 'x')
    setImmediate(spin)
  }
  spin()
  try {
    const staged = stage()
    while (!isLinked(join(profile, BLOBS, '1'))) await new Promise(resolve => setImmediate(resolve))
    put(`${BLOBS}/2`, 'blob 2')
    appendFileSync(log, 'names 2\n')
    while (!isLinked(log)) await new Promise(resolve => setImmediate(resolve))
    const since = Date.now()
    while (!isLinked(join(profile, BLOBS, '2')) && Date.now() - since < 1000) await new Promise(resolve => setImmediate(resolve))
    rmSync(join(profile, BLOBS, '2'))
    busy = false
    const entries = new Map((await staged).map(entry => [entry.name, content(entry)]))
    expect(entries.get(`${DATABASE}/000004.log`)).toContain('names 2')
    expect(entries.get(`${BLOBS}/2`)).toBe('blob 2')
  } finally {
    busy = false
  }
})

test('nothing is copied where the file system has links', async () => {
  const [table] = await stage()
  expect(statSync(table?.path ?? '').ino).toBe(statSync(join(profile, DATABASE, '000003.ldb')).ino)
})

test.runIf(existsSync('/dev/shm'))('on another file system the files are copied', async () => {
  const other = mkdtempSync('/dev/shm/pannier-stage-')
  try {
    const entries = await stageProfile(profile, SESSION_FOLDERS, join(other, 'files'))
    rmSync(profile, { recursive: true })
    expect(entries.map(content)).toEqual(['table 3', 'one\n', 'MANIFEST-000001\n', '3\n'])
  } finally {
    rmSync(other, { recursive: true })
  }
})

test('every picture holds all tables that its MANIFEST names, while they are replaced all the time', async () => {
  // As a compaction does it: the new table, then the MANIFEST, then the old table goes.
  let table = 3
  let stop = false
  const compacting = (async () => {
    while (!stop) {
      const next = table + 1
      writeFileSync(join(profile, DATABASE, `${String(next).padStart(6, '0')}.ldb`), `table ${next}`)
      appendFileSync(join(profile, DATABASE, 'MANIFEST-000001'), `${next}\n`)
      await new Promise(resolve => setTimeout(resolve, Math.random() * 3))
      rmSync(join(profile, DATABASE, `${String(table).padStart(6, '0')}.ldb`))
      table = next
      await new Promise(resolve => setTimeout(resolve, Math.random() * 6))
    }
  })()
  try {
    for (let i = 0; i < 200; i++) {
      const entries = await stage()
      const find = (name: string): PackEntry | undefined => entries.find(entry => entry.name === `${DATABASE}/${name}`)
      const named = content(find('MANIFEST-000001') ?? { name: '', path: '', size: 0 }).trim().split('\n').at(-1) ?? ''
      const found = find(`${named.padStart(6, '0')}.ldb`)
      expect(found && content(found), `picture ${i}, table ${named}`).toBe(`table ${named}`)
    }
  } finally {
    stop = true
    await compacting
  }
  expect(table).toBeGreaterThan(20)
})

test('files beside a database that come while it is looked at are there', async () => {
  put(`${BLOBS}/2`, 'blob 2')
  let number = 2
  const adding = setInterval(() => number < 200 && put(`${BLOBS}/${++number}`, `blob ${number}`), 1)
  try {
    for (let i = 0; i < 10; i++) {
      const before = number
      const names = (await stage()).map(entry => entry.name)
      for (let blob = 2; blob <= before; blob++) expect(names).toContain(`${BLOBS}/${blob}`)
    }
  } finally {
    clearInterval(adding)
  }
})

test('a database that never stands still is EBUSY, not a bad picture', async () => {
  const changing = setInterval(() => appendFileSync(join(profile, DATABASE, 'MANIFEST-000001'), 'x'), 0)
  // Timers alone leave gaps between them.
  let busy = true
  const spin = (): void => {
    if (!busy) return
    appendFileSync(join(profile, DATABASE, 'MANIFEST-000001'), 'x')
    setImmediate(spin)
  }
  spin()
  try {
    await expect(stage()).rejects.toMatchObject({ code: 'EBUSY' })
  } finally {
    busy = false
    clearInterval(changing)
  }
}, 60_000)

test('only the folders asked for, without links; with everything, also the noise of databases', async () => {
  put('Default/Cookies', 'x')
  put('Default/LOG', 'of no database')
  symlinkSync('/etc/passwd', join(profile, 'SingletonLock'))
  symlinkSync('/etc', join(profile, 'Default/IndexedDB/etc'))
  expect((await stage()).every(entry => entry.name.startsWith(`${DATABASE}/`))).toBe(true)
  const all = (await stage([''], true)).map(entry => entry.name)
  expect(all).toContain('Default/Cookies')
  expect(all).toContain('Default/LOG')
  expect(all).toContain(`${DATABASE}/LOCK`)
  expect(all.some(name => name.includes('Singleton') || name.includes('etc/'))).toBe(false)
  await expect(stage(['Default/IndexedDB/nothing'])).rejects.toMatchObject({ name: 'BadArchiveError' })
})

test('leftovers of dead processes are swept, those of this one only when they are given back', async () => {
  const path = join(work, 'x.zip')
  const dead = `${path}.part-999999999-0123456789ab`
  const others = [`${path}.part-1-xyz`, join(work, 'y.zip.part-999999999-0123456789ab'), path]
  const live = await withPart(path, async part => {
    for (const name of [part, dead, ...others]) writeFileSync(name, '')
    await sweep(path)
    expect(readdirSync(work).sort()).toEqual(['profile', ...[part, ...others].map(name => name.slice(work.length + 1))].sort())
    return part
  })
  expect(existsSync(live)).toBe(false)
  // What could not be removed then.
  writeFileSync(live, '')
  await sweep(path)
  expect(existsSync(live)).toBe(false)
  await sweep(join(work, 'no/such/folder'))
})

test('a session is named by the last part of what RemoteAuth passes', () => {
  expect(sessionKey('RemoteAuth-x')).toBe('RemoteAuth-x')
  expect(sessionKey('/home/user/.wwebjs_auth/RemoteAuth-x')).toBe('RemoteAuth-x')
  expect(sessionKey('RemoteAuth-*')).toBe('RemoteAuth-*')
  expect(sessionKey('é'.repeat(128))).toHaveLength(128)
  for (const bad of ['', '.', '..', '/', '/a/..', 'a\tb', '\u007f', 'é'.repeat(129), 1, null, undefined, {}]) expect(() => sessionKey(bad)).toThrow(/names no archive/)
})
