// One try of a save. The content is hashed on its way; the sidecar makes it visible only if size and hash agree.

import { createHash } from 'node:crypto'
import type { Connection } from '../connection.js'
import { BlobServiceService as Service, SaveBlobRequest, SaveBlobResponse } from '../gen/pannier/v1/blob.js'
import type { SaveBlobHeader } from '../gen/pannier/v1/blob.js'
import { incomplete } from './info.js'
import type { Source } from './source.js'
import { Transfer } from './transfer.js'

/** See the top of this file. */
export async function saveOnce(connection: Connection, header: SaveBlobHeader, source: Source, idleMs: number): Promise<SaveBlobResponse> {
  const transfer = new Transfer(connection, Service.saveBlob.path, idleMs)
  const send = (part: NonNullable<SaveBlobRequest['part']>): Promise<void> => transfer.send(SaveBlobRequest.encode({ part }).finish())
  try {
    await send({ $case: 'header', value: header })
    const hash = createHash('sha256')
    let size = 0
    // Nothing of an answered save is sent: UNCHANGED and refusals come early.
    for await (const data of source.chunks()) {
      if (transfer.answered) break
      hash.update(data)
      size += data.length
      await send({ $case: 'chunk', value: { data: Buffer.from(data.buffer, data.byteOffset, data.byteLength) } })
    }
    if (!transfer.answered) {
      await send({ $case: 'finish', value: { size: BigInt(size), sha256: hash.digest() } })
      transfer.finish()
    }
    const answer = await transfer.next()
    if (answer === undefined) throw incomplete()
    const response = SaveBlobResponse.decode(answer)
    // The status behind it counts as well; an early answer is not waited for: it may come with a reset.
    return response
  } finally {
    transfer.close()
  }
}
