// A consistent picture of a Chrome profile in use: links to its files, and the size that each had.
//
// A LevelDB never changes a table, appends to its logs and MANIFEST, and adds to the MANIFEST before it deletes anything. So if a
// folder's names and the size of its MANIFEST are the same before and after its files were linked, the links and sizes are one state of the
// database, which later writes cannot touch. Nothing is copied where the file system has hard links.

import type { Dirent } from 'node:fs'
import { copyFile, link, mkdir, readdir, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { sleep } from '../waiting.js'
import { badArchive } from './archive.js'
import type { PackEntry } from './pack.js'

/** Of a LevelDB: what it never reads again, and changes for no reason. */
const NOISE = new Set(['LOCK', 'LOG', 'LOG.old'])
const NOTHING: ReadonlySet<string> = new Set()
const TRIES = 25
const GONE = new Set(['ENOENT', 'ENOTDIR'])
const NO_LINKS = new Set(['EPERM', 'EXDEV', 'ENOTSUP', 'EOPNOTSUPP', 'EMLINK', 'ENOSYS', 'EACCES', 'EBUSY'])

/**
 * Links what is below `folders` of `profile` ('': all of it) into `stage`, which is made. Names in the result are relative to the profile.
 * `noise`: also the logs and locks of databases.
 */
export async function stageProfile(profile: string, folders: readonly string[], stage: string, noise = false): Promise<PackEntry[]> {
  const staging = new Staging(stage, noise)
  const below = async (...names: string[]): Promise<Folder[]> => {
    const found: Folder[] = []
    for (const name of names) await walk(join(profile, name), name, found)
    return found
  }
  const plain = async (found: readonly Folder[]): Promise<void> => {
    for (const folder of found) if (!folder.isDatabase) await staging.plain(folder)
  }
  const found = await below(...folders)
  if (found.length === 0) throw badArchive('the profile has none of the folders that belong to a session')
  // Databases name files in the folders beside them, which come and go. Those are linked before and after: what a database names is there.
  // Blobs come and go all the time, so theirs is looked at right before and right after their own database.
  await plain(found.filter(folder => !hasBlobs(folder)))
  for (const folder of found) {
    if (!folder.isDatabase) continue
    const blobs = folder.name.replace(/\.indexeddb\.leveldb$/, '.indexeddb.blob')
    const beside = blobs === folder.name ? [] : [blobs]
    await plain(await below(...beside))
    await staging.database(folder)
    await plain(await below(...beside))
  }
  await plain(await below(...folders))
  return staging.entries()
}

interface Folder {
  path: string
  name: string
  isDatabase: boolean
}

/** Blobs are written, then named by their database, and never changed. */
function isBlob(name: string): boolean {
  return name.includes('.indexeddb.blob/')
}

function hasBlobs(folder: Folder): boolean {
  return isBlob(`${folder.name}/`)
}

async function walk(path: string, name: string, found: Folder[]): Promise<void> {
  const entries = await listed(path)
  if (entries === undefined) return
  found.push({ path, name, isDatabase: entries.some(entry => entry.name === 'CURRENT') })
  for (const entry of entries) if (entry.isDirectory()) await walk(join(path, entry.name), inside(name, entry.name), found)
}

class Staging {
  readonly #staged = new Map<string, PackEntry>()
  #count = 0
  #made: Promise<unknown> | undefined

  constructor(
    private readonly stage: string,
    private readonly noise: boolean,
  ) {}

  async entries(): Promise<PackEntry[]> {
    // One that was linked while it was being written was whole before any database named it.
    for (const entry of this.#staged.values()) if (isBlob(entry.name)) entry.size = (await stat(entry.path)).size
    return [...this.#staged.values()].sort((a, b) => (a.name < b.name ? -1 : 1))
  }

  async database(folder: Folder): Promise<void> {
    await this.#unchanged(folder, 'MANIFEST-', async names => {
      // The MANIFEST first, so that whatever it names has been there since.
      const inOrder = [...names].sort((a, b) => Number(b.startsWith('MANIFEST-')) - Number(a.startsWith('MANIFEST-')))
      return this.#take(folder, inOrder, true)
    })
  }

  async plain(folder: Folder): Promise<void> {
    if (hasBlobs(folder)) {
      const files = ((await listed(folder.path)) ?? []).filter(entry => entry.isFile())
      for (const { name } of files) {
        if (await this.#isWhole(folder, name)) continue
        for (const staged of await this.#take(folder, [name], true, true)) this.#staged.set(staged.name, staged)
      }
      return
    }
    await this.#unchanged(folder, '', names => this.#take(folder, names, false))
  }

  /** Whether a file that is written once was taken, and not as a copy of only its beginning. */
  async #isWhole(folder: Folder, name: string): Promise<boolean> {
    const staged = this.#staged.get(inside(folder.name, name))
    if (staged === undefined) return false
    const [ours, theirs] = await Promise.all([staged.path, join(folder.path, name)].map(path => stat(path).catch(() => undefined)))
    return theirs === undefined || ours?.size === theirs.size
  }

  /** Takes files until nothing about them that matters has changed meanwhile. `watched`: prefix of the names whose size matters. */
  async #unchanged(folder: Folder, watched: string, take: (names: string[]) => Promise<PackEntry[]>): Promise<void> {
    const leftOut = folder.isDatabase && !this.noise ? NOISE : NOTHING
    for (let attempt = 1; ; attempt++) {
      try {
        const before = await state(folder.path, watched, leftOut)
        if (before === undefined) return
        const taken = await take(before.names)
        if ((await state(folder.path, watched, leftOut))?.text === before.text) {
          for (const entry of taken) this.#staged.set(entry.name, entry)
          return
        }
        await Promise.all(taken.map(entry => rm(entry.path, { force: true })))
      } catch (error) {
        if (!GONE.has((error as NodeJS.ErrnoException).code ?? '') && (error as NodeJS.ErrnoException).code !== 'EBUSY') throw error
      }
      if (attempt === TRIES) throw Object.assign(new Error(`${folder.name} of the profile changes too fast to be copied`), { code: 'EBUSY' })
      await sleep(Math.min(10 * attempt, 250))
    }
  }

  async #take(folder: Folder, names: readonly string[], mayLink: boolean, mayVanish = false): Promise<PackEntry[]> {
    this.#made ??= mkdir(this.stage, { recursive: true, mode: 0o700 })
    await this.#made
    const taken: PackEntry[] = []
    for (const name of names) {
      const from = join(folder.path, name)
      const to = join(this.stage, String(++this.#count))
      try {
        if (!mayLink || !(await linked(from, to))) await copyFile(from, to)
        taken.push({ name: inside(folder.name, name), path: to, size: (await stat(to)).size })
      } catch (error) {
        if (!mayVanish || !GONE.has((error as NodeJS.ErrnoException).code ?? '')) throw error
      }
    }
    return taken
  }
}

async function linked(from: string, to: string): Promise<boolean> {
  try {
    await link(from, to)
    return true
  } catch (error) {
    if (NO_LINKS.has((error as NodeJS.ErrnoException).code ?? '')) return false
    throw error
  }
}

/** The files of a folder, and a text that changes when it matters. Undefined: there is no such folder any more. */
async function state(path: string, watched: string, leftOut: ReadonlySet<string>): Promise<{ names: string[]; text: string } | undefined> {
  const entries = await listed(path)
  if (entries === undefined) return undefined
  const names = entries.filter(entry => entry.isFile() && !leftOut.has(entry.name)).map(entry => entry.name).sort()
  const sizes: string[] = []
  for (const name of names) {
    if (!name.startsWith(watched)) continue
    const { size, mtimeNs } = await stat(join(path, name), { bigint: true })
    sizes.push(watched === '' ? `${size}@${mtimeNs}` : String(size))
  }
  return { names, text: JSON.stringify([names, sizes]) }
}

function inside(folder: string, name: string): string {
  return folder === '' ? name : `${folder}/${name}`
}

async function listed(path: string): Promise<Dirent[] | undefined> {
  try {
    return await readdir(path, { withFileTypes: true })
  } catch (error) {
    if (GONE.has((error as NodeJS.ErrnoException).code ?? '')) return undefined
    throw error
  }
}
