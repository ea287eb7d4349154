// Unpacks an archive into a new folder, every entry checked, and resolves only when all of it is written.

import { mkdir, open, rename, rm, type FileHandle } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { withPart } from '../leftovers.js'
import { isFolder, listed, openZip, readEntry, type ArchiveRules } from './archive.js'

/** Into `folder`, which must not be there. @throws BadArchiveError */
export async function unpack(file: FileHandle, folder: string, rules: ArchiveRules): Promise<void> {
  const zip = await openZip(file)
  await mkdir(folder, { recursive: true, mode: 0o700 })
  for (const entry of await listed(zip, rules)) {
    const path = join(folder, ...entry.fileName.split('/'))
    if (isFolder(entry)) {
      await mkdir(path, { recursive: true, mode: 0o700 })
      continue
    }
    await mkdir(dirname(path), { recursive: true, mode: 0o700 })
    const target = await open(path, 'wx', 0o600)
    try {
      await readEntry(zip, entry, undefined, async chunk => target.writeFile(chunk))
    } finally {
      await target.close()
    }
  }
}

/** The same into a folder that may be there: it is replaced when everything is unpacked, and stays as it was if anything fails. */
export function unpackOver(archive: string, folder: string, rules: ArchiveRules): Promise<void> {
  return withPart(folder, async part => {
    const file = await open(archive, 'r')
    try {
      await unpack(file, part, rules)
      await rm(folder, { recursive: true, force: true, maxRetries: 5 })
      await rename(part, folder)
    } finally {
      await file.close()
    }
  })
}
