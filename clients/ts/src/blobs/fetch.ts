// One try of a fetch, as a stream or into a file. A file gets its name only when every byte is there, verified and on disk.

import { createHash } from 'node:crypto'
import { mkdir, open, rename } from 'node:fs/promises'
import { dirname } from 'node:path'
import type { Connection } from '../connection.js'
import { makeError } from '../errors.js'
import { BlobServiceService as Service, FetchBlobRequest, FetchBlobResponse, type BlobInfo as WireInfo } from '../gen/pannier/v1/blob.js'
import { sweep, withPart } from '../leftovers.js'
import { incomplete, toInfo, type BlobInfo } from './info.js'
import { Transfer } from './transfer.js'

/** What is fetched. */
export interface FetchRequest {
  namespace: string
  blob: string
  generation: number
}

/** The chunks of a generation, in order; its info first, to `onInfo`. Only what ends without an error is whole. */
export async function* fetchChunks(
  connection: Connection,
  request: FetchRequest,
  idleMs: number,
  onInfo: (info: BlobInfo) => void,
): AsyncGenerator<Buffer, void, undefined> {
  const transfer = new Transfer(connection, Service.fetchBlob.path, idleMs)
  try {
    await transfer.send(FetchBlobRequest.encode({ ...request, generation: BigInt(request.generation) }).finish())
    transfer.finish()
    const hash = createHash('sha256')
    let size = 0n
    let info: WireInfo | undefined
    let finished = false
    for (let message = await transfer.next(); message; message = await transfer.next()) {
      const { part } = FetchBlobResponse.decode(message)
      if (part?.$case === 'info') {
        info = part.value
        onInfo(toInfo(info))
      } else if (part?.$case === 'chunk') {
        const { data } = part.value
        hash.update(data)
        size += BigInt(data.length)
        yield data
      } else if (part?.$case === 'finish') {
        const mine = hash.digest()
        if (!info || part.value.size !== size || info.size !== size || !mine.equals(part.value.sha256) || !mine.equals(info.sha256)) {
          throw makeError({ code: 'DATA_LOSS', reason: 'CORRUPT_BLOB', message: 'what arrived is not what was stored' })
        }
        finished = true
      }
    }
    if (!finished) throw incomplete()
  } finally {
    transfer.close()
  }
}

/** Into `path`; its directory is made, what is there is replaced at one instant. */
export async function fetchToFile(connection: Connection, request: FetchRequest, path: string, idleMs: number): Promise<BlobInfo> {
  const directory = dirname(path)
  await mkdir(directory, { recursive: true })
  await sweep(path)
  let info: BlobInfo | undefined
  await withPart(path, async part => {
    const file = await open(part, 'wx', 0o600)
    try {
      for await (const chunk of fetchChunks(connection, request, idleMs, value => (info = value))) await file.writeFile(chunk)
      await file.sync()
    } finally {
      await file.close()
    }
    await rename(part, path)
  })
  await syncDirectory(directory)
  if (info === undefined) throw incomplete()
  return info
}

/** So that the name survives a power cut as well. Where directories cannot be opened, nothing can be done. */
async function syncDirectory(directory: string): Promise<void> {
  const handle = await open(directory, 'r').catch(() => undefined)
  await handle?.sync().catch(() => {})
  await handle?.close()
}
