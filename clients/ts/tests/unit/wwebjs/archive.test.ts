import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { open } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, test } from 'vitest'
import { BadArchiveError } from '../../../src/index.js'
import { inspect, listed, openZip, readEntry, type ArchiveReport } from '../../../src/wwebjs/archive.js'
import { crc32, portableCrc32 } from '../../../src/wwebjs/crc.js'
import { SESSION_ARCHIVE } from '../../../src/wwebjs/layout.js'
import { replaced, SESSION, zip } from '../../support/zips.js'

const folder = mkdtempSync(join(tmpdir(), 'pannier-archive-'))
afterAll(() => rmSync(folder, { recursive: true }))

async function look(bytes: Buffer): Promise<ArchiveReport> {
  const path = join(folder, 'archive.zip')
  writeFileSync(path, bytes)
  const file = await open(path)
  try {
    return await inspect(file, SESSION_ARCHIVE)
  } finally {
    await file.close()
  }
}

/** What the archive that was looked at last unpacks to. */
async function contents(): Promise<Record<string, string>> {
  const file = await open(join(folder, 'archive.zip'))
  try {
    const opened = await openZip(file)
    const found: Record<string, string> = {}
    for (const entry of await listed(opened, {})) {
      found[entry.fileName] = ''
      await readEntry(opened, entry, undefined, chunk => void (found[entry.fileName] += chunk.toString('latin1')))
    }
    return found
  } finally {
    await file.close()
  }
}

describe('an archive', () => {
  test('of a session is good, packed or not', async () => {
    expect(await look(await zip(SESSION))).toMatchObject({ files: 3 })
    expect(await look(await zip(SESSION, { compress: false }))).toMatchObject({ files: 3 })
  })

  test('has a digest that follows its content, not its times or its order', async () => {
    const { contentDigest } = await look(await zip(SESSION, { mtime: new Date(2020, 1, 1) }))
    const turned = Object.fromEntries(Object.entries(SESSION).reverse())
    expect((await look(await zip(turned, { mtime: new Date(2021, 1, 1) }))).contentDigest).toEqual(contentDigest)
    const other = { ...SESSION, 'Default/Local Storage/leveldb/CURRENT': 'MANIFEST-000002\n' }
    expect((await look(await zip(other))).contentDigest).not.toEqual(contentDigest)
    const renamed = { ...SESSION, 'Default/Local Storage/leveldb/000004.log': 'x' }
    expect((await look(await zip(renamed))).contentDigest).not.toEqual(contentDigest)
  })

  // devlikeapro/waha #457, #465, #676: truncated archives were taken, and could not be opened at the next start.
  test('that is cut off, empty or no archive is refused', async () => {
    const good = await zip(SESSION)
    for (const length of [good.length - 1, good.length - 22, Math.floor(good.length / 2), 22, 4, 0]) {
      await expect(look(good.subarray(0, length)), `${length} bytes`).rejects.toThrow(BadArchiveError)
    }
    await expect(look(Buffer.from('<html>503</html>'.repeat(100)))).rejects.toThrow(BadArchiveError)
    await expect(look(Buffer.concat([good, Buffer.alloc(100)]))).rejects.toThrow(BadArchiveError)
    // A hole in the middle, its end in place.
    await expect(look(Buffer.concat([good.subarray(0, 60), good.subarray(100)]))).rejects.toThrow(BadArchiveError)
  })

  test('with any one bit of its content turned over is refused', async () => {
    const good = await zip(SESSION)
    let refused = 0
    for (let at = 0; at < good.length; at += 3) {
      const bad = Buffer.from(good)
      bad[at] = (bad[at] ?? 0) ^ (1 << at % 8)
      try {
        await look(bad)
      } catch (error) {
        expect(error, `byte ${at}`).toBeInstanceOf(BadArchiveError)
        refused++
        continue
      }
      // Times and padding: nothing that comes out is different.
      expect(await contents(), `byte ${at}`).toEqual(SESSION)
    }
    expect(refused).toBeGreaterThan(good.length / 3 / 2)
  })

  // whatsapp-web.js #2667, #2631: the stored zip held an empty `Default`.
  test('without a file below IndexedDB is refused', async () => {
    await expect(look(await zip({}))).rejects.toThrow(/no file below Default\/IndexedDB/)
    await expect(look(await zip({ 'Default/': '' }))).rejects.toThrow(/no file below Default\/IndexedDB/)
    await expect(look(await zip({ 'Default/IndexedDB/': '', 'Default/Local Storage/a': 'x' }))).rejects.toThrow(/no file below Default\/IndexedDB/)
  })

  test('with a name that leads elsewhere is refused', async () => {
    const good = await zip({ ...SESSION, 'Default/IndexedDB/aaaa/evil': 'x' })
    for (const name of ['Default/IndexedDB/../../evil', '../../../../../../../../evil', '/etc/cron.d/0123456789/evil', 'C:/Windows/System32/1234/evil'].map(text => text.slice(-27).padStart(27, '/'))) {
      await expect(look(replaced(good, 'Default/IndexedDB/aaaa/evil', name)), name).rejects.toThrow(BadArchiveError)
    }
    await expect(look(replaced(good, 'Default/IndexedDB/aaaa/evil', 'Default\\IndexedDB\\..\\..\\vil'.padEnd(27, 'x')))).rejects.toThrow(BadArchiveError)
  })

  test('with folders that are not part of a session is refused', async () => {
    for (const name of ['Default/Cookies', 'Default/Cache/x', 'Local State', 'Default/IndexedDBx/y']) {
      await expect(look(await zip({ ...SESSION, [name]: 'x' })), name).rejects.toThrow(/outside the folders/)
    }
    await look(await zip({ ...SESSION, 'Default/': '', 'Default/IndexedDB/empty/': '' }))
  })

  test('with a link, or two entries of one name, is refused', async () => {
    const link = { mode: 0o120777 }
    await expect(look(await zip({ ...SESSION, 'Default/IndexedDB/link': '/etc/passwd' }, link as object))).rejects.toThrow(/neither a file nor a folder/)
    const twice = await zip({ ...SESSION, 'Default/IndexedDB/a': '1', 'Default/IndexedDB/b': '2' })
    await expect(look(replaced(twice, 'Default/IndexedDB/b', 'Default/IndexedDB/a'))).rejects.toThrow(/one name/)
  })
})

test('the checksum is the same with and without that of Node', () => {
  const data = Buffer.from('The quick brown fox jumps over the lazy dog')
  expect(portableCrc32(data, 0)).toBe(0x414fa339)
  expect(crc32(data.subarray(9), crc32(data.subarray(0, 9), 0))).toBe(0x414fa339)
  expect(portableCrc32(data.subarray(9), portableCrc32(data.subarray(0, 9), 0))).toBe(0x414fa339)
})
