// Chrome profiles made up of random bytes, and comparing folders.
import { createHash, randomBytes } from 'node:crypto'
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'

/** Files a profile of WhatsApp Web has, and others that are not part of a session. */
export function makeProfile(folder: string, { files = 12, size = 20_000 } = {}): void {
  const origin = 'https_web.whatsapp.com_0.indexeddb'
  for (let i = 0; i < files; i++) put(folder, `Default/IndexedDB/${origin}.leveldb/${String(i).padStart(6, '0')}.ldb`, randomBytes(size))
  put(folder, `Default/IndexedDB/${origin}.leveldb/CURRENT`, 'MANIFEST-000001\n')
  put(folder, `Default/IndexedDB/${origin}.leveldb/MANIFEST-000001`, randomBytes(100))
  put(folder, `Default/IndexedDB/${origin}.leveldb/LOCK`, '')
  put(folder, `Default/IndexedDB/${origin}.blob/1/00/2`, randomBytes(5000))
  put(folder, 'Default/Local Storage/leveldb/000003.log', 'text that packs well '.repeat(500))
  put(folder, 'Default/Local Storage/leveldb/CURRENT', 'MANIFEST-000001\n')
  put(folder, 'Default/Local Storage/leveldb/MANIFEST-000001', randomBytes(41))
  put(folder, 'Default/Cache/data_0', randomBytes(1000))
  put(folder, 'Local State', '{}')
}

export function put(folder: string, name: string, content: string | Buffer): void {
  mkdirSync(dirname(join(folder, name)), { recursive: true })
  writeFileSync(join(folder, name), content)
}

/** Every file below a folder, with the hash of its content. */
export function tree(folder: string): Record<string, string> {
  const found: Record<string, string> = {}
  for (const entry of readdirSync(folder, { recursive: true, withFileTypes: true })) {
    if (!entry.isFile()) continue
    const path = join(entry.parentPath, entry.name)
    found[path.slice(folder.length + 1)] = createHash('sha256').update(readFileSync(path)).digest('hex')
  }
  return Object.fromEntries(Object.entries(found).sort(([a], [b]) => (a < b ? -1 : 1)))
}

/** What of a profile belongs to a session. */
export function session(of: Record<string, string>): Record<string, string> {
  return Object.fromEntries(Object.entries(of).filter(([name]) => /^Default\/(IndexedDB|Local Storage)\//.test(name)))
}
