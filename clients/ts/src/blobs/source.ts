// What a save reads: a file, through one descriptor that must show the same size and time of change at the end; or any stream of bytes.

import { open, type FileHandle } from 'node:fs/promises'
import { makeError, type PannierError } from '../errors.js'

/** A path, a descriptor that stays yours to close, or bytes as they come. */
export type BlobSource = string | FileHandle | AsyncIterable<Uint8Array> | Iterable<Uint8Array>

/** @internal */
export interface Source {
  /** It can be read again, from its beginning. */
  readonly repeatable: boolean
  /** ≤ 256 KiB each. A chunk is good only until the next one is asked for. */
  chunks(): AsyncIterable<Uint8Array>
  close(): Promise<void>
}

const CHUNK = 256 * 1024

/** @internal Opens it. @throws PannierError SOURCE_UNREADABLE: naming the path. */
export async function toSource(source: BlobSource): Promise<Source> {
  if (typeof source === 'string') {
    const file = await open(source, 'r').catch((cause: NodeJS.ErrnoException) => {
      throw unreadable(`cannot open ${source}: ${cause.code ?? cause.message}`, cause)
    })
    return { repeatable: true, chunks: () => fileChunks(file), close: () => file.close() }
  }
  if (isFile(source)) return { repeatable: true, chunks: () => fileChunks(source), close: () => Promise.resolve() }
  return { repeatable: false, chunks: () => sliced(source), close: () => Promise.resolve() }
}

/** What a file looked like. */
export interface FileLook {
  size: bigint
  mtimeNs: bigint
}

/** @internal A file that must look as it did before. It stays the caller's to close. */
export function unchangedFile(file: FileHandle, look: FileLook): Source {
  return { repeatable: true, chunks: () => fileChunks(file, look), close: () => Promise.resolve() }
}

function isFile(source: object): source is FileHandle {
  return 'fd' in source && 'read' in source && 'stat' in source
}

async function* fileChunks(file: FileHandle, look?: FileLook): AsyncGenerator<Uint8Array, void, undefined> {
  const now = await file.stat({ bigint: true })
  if (!now.isFile()) throw unreadable('what is to be saved is not a regular file')
  const before = look ?? now
  const buffer = Buffer.allocUnsafe(CHUNK)
  for (let at = 0; ; ) {
    const { bytesRead } = await file.read(buffer, 0, CHUNK, at)
    if (bytesRead === 0) break
    at += bytesRead
    yield buffer.subarray(0, bytesRead)
  }
  const after = await file.stat({ bigint: true })
  if (after.size !== before.size || after.mtimeNs !== before.mtimeNs) {
    throw makeError({ code: 'ABORTED', reason: 'SOURCE_CHANGED', message: `the file was changed while it was read (${before.size} bytes, then ${after.size})` })
  }
}

async function* sliced(source: AsyncIterable<Uint8Array> | Iterable<Uint8Array>): AsyncGenerator<Uint8Array, void, undefined> {
  for await (const chunk of source) {
    if (!(chunk instanceof Uint8Array)) throw new TypeError('a blob is made of bytes: its stream gave something else')
    for (let at = 0; at < chunk.length; at += CHUNK) yield chunk.subarray(at, at + CHUNK)
  }
}

function unreadable(message: string, cause?: unknown): PannierError {
  return makeError({ code: 'INVALID_ARGUMENT', reason: 'SOURCE_UNREADABLE', message, cause })
}
