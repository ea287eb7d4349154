// Archives of whole folders, in the format of RemoteAuth's: for libraries that keep a Chrome profile and have no store for it (wppconnect,
// venom, open-wa).

import { open, stat } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import type { BlobInfo, FenceOption, SaveResult } from '../blobs/index.js'
import { sweep, withPart } from '../leftovers.js'
import { checkKnown } from '../options.js'
import type { Pannier } from '../pannier.js'
import { badArchive, inspect } from './archive.js'
import { sessionKey } from './key.js'
import { pack } from './pack.js'
import { stageProfile } from './stage.js'
import { unpackOver } from './unpack.js'

/** See `snapshotDir`. */
export interface SnapshotOptions extends FenceOption {
  /** Only these folders below it, such as `['Default/IndexedDB', 'Default/Local Storage']`. Default: all of it. */
  folders?: readonly string[]
  /** As of `blobs.save`. */
  labels?: Readonly<Record<string, string>>
}

/** See `restoreDir`. */
export interface RestoreOptions {
  /** Default: the current one. */
  generation?: number
}

/**
 * Stores all regular files of a folder as a new generation of the blob `name`; an unchanged folder stores nothing. The browser
 * may be running: its databases are archived in one state each. Empty folders and links are left out.
 * @throws BadArchiveError when nothing is there; EBUSY when it changes too fast
 */
export async function snapshotDir(pannier: Pannier, name: string, folder: string, options: SnapshotOptions = {}): Promise<SaveResult> {
  checkKnown('snapshotDir', options, ['folders', 'labels', 'fence'])
  const key = sessionKey(name)
  const root = resolve(folder)
  if (!(await stat(root)).isDirectory()) throw new TypeError('snapshotDir: what is to be stored is not a folder')
  await sweep(root)
  return withPart(root, async part => {
    const entries = await stageProfile(root, options.folders ?? [''], join(part, 'files'), true)
    if (entries.length === 0) throw badArchive('the folder holds no files')
    const archive = join(part, 'archive.zip')
    await pack(entries, archive)
    const file = await open(archive, 'r')
    try {
      const { contentDigest } = await inspect(file)
      return await pannier.blobs.save(key, file, { contentDigest, fence: options.fence, labels: options.labels ?? {} })
    } finally {
      await file.close()
    }
  })
}

/**
 * Puts a folder back as `snapshotDir` stored it, replacing what is there; if anything fails, that stays. No browser may be using it.
 * @throws NotFoundError, BadArchiveError, CorruptBlobError
 */
export async function restoreDir(pannier: Pannier, name: string, folder: string, options: RestoreOptions = {}): Promise<BlobInfo> {
  checkKnown('restoreDir', options, ['generation'])
  const key = sessionKey(name)
  const root = resolve(folder)
  await sweep(root)
  return withPart(root, async archive => {
    const info = await pannier.blobs.fetch(key, archive, options)
    await unpackOver(archive, root, {})
    return info
  })
}
