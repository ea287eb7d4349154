// Packs files into a zip that the stock RemoteAuth can unpack.

import { createReadStream, createWriteStream } from 'node:fs'
import { pipeline } from 'node:stream/promises'
import yazl from 'yazl'

/** A file of an archive. */
export interface PackEntry {
  /** In the archive: relative, with `/`. */
  name: string
  /** Where it is. */
  path: string
  /** So many of its bytes are packed. */
  size: number
}

const MODE = 0o100600

/** Writes the archive to `to`, which must not be there. */
export async function pack(entries: readonly PackEntry[], to: string): Promise<void> {
  const zip = new yazl.ZipFile()
  const failed = new Promise<never>((_, reject) => zip.on('error', reject))
  // The pipeline below may end first.
  failed.catch(() => {})
  for (const { name, path, size } of entries) {
    if (size === 0) zip.addBuffer(Buffer.alloc(0), name, { mode: MODE })
    else {
      // What has become shorter than `size` meanwhile is an error of the archive.
      zip.addReadStreamLazy(name, { mode: MODE, size }, done => done(null, createReadStream(path, { end: size - 1 }).on('error', error => zip.emit('error', error))))
    }
  }
  zip.end()
  await Promise.race([pipeline(zip.outputStream, createWriteStream(to, { flags: 'wx', mode: 0o600 })), failed])
}
