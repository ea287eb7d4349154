// Blobs: archives and other large opaque state. A save becomes visible whole or not at all, the generations before it are kept,
// and what is fetched is verified before it gets its name.

import { randomUUID } from 'node:crypto'
import type { Connection } from '../connection.js'
import { BlobServiceService as Service, DeleteBlobRequest_Mode, SaveBlobResponse_Outcome, type ListBlobsResponse } from '../gen/pannier/v1/blob.js'
import type { Durability } from '../gen/pannier/v1/session.js'
import { checkKnown, milliseconds, type Duration } from '../options.js'
import { pages } from '../pages.js'
import { retried } from '../waiting.js'
import { fetchChunks, fetchToFile } from './fetch.js'
import { toArchive, toInfo, type BlobArchive, type BlobInfo, type BlobStatus } from './info.js'
import { saveOnce } from './save.js'
import { toSource, type BlobSource, type Source } from './source.js'

export type { BlobArchive, BlobInfo, BlobStatus, GenerationStateName } from './info.js'
export type { BlobSource } from './source.js'

/** Of a call that changes a blob. */
export interface FenceOption {
  /** The fence of the session of this name, if the caller holds it. Default: it holds none. */
  fence?: number | undefined
}

/** Of a transfer. */
export interface TransferOptions {
  /** Nothing sent or received for so long: this try has failed. Default 40 s. */
  idleTimeout?: Duration
  /** For how long after the first failure to begin anew, where that can help. Default 30 s. */
  retryFor?: Duration
}

/** See `Blobs.save`. */
export interface SaveOptions extends FenceOption, TransferOptions {
  /** ≤ 64 bytes that are equal when the content is. Equal to the current generation's: nothing is stored. Default: the content's SHA-256. */
  contentDigest?: Uint8Array
  /** Kept encrypted: ≤ 16 names of 1..64 bytes, values ≤ 256 bytes. */
  labels?: Readonly<Record<string, string>>
}

/** A save that is done. */
export interface SaveResult {
  /** `unchanged`: the current generation has this content already; nothing was stored. */
  outcome: 'saved' | 'unchanged'
  /** The new generation, or the current one. */
  blob: BlobInfo
  durability: Durability
}

const SAVE = ['fence', 'idleTimeout', 'retryFor', 'contentDigest', 'labels'] as const
const FETCH = ['generation', 'idleTimeout', 'retryFor'] as const
const AGAIN = new Set(['SIDECAR_UNREACHABLE', 'VALKEY_UNREACHABLE', 'STARTING', 'DRAINING', 'BUSY', 'STORE_CHANGED', 'TOO_MANY_IN_FLIGHT', 'DEADLINE_EXCEEDED'])

/** The blob calls of a connection. Names: 1..256 bytes, any characters. */
export class Blobs {
  constructor(
    private readonly connection: Connection,
    private readonly namespace: string,
    private readonly timeoutMs: number,
  ) {}

  /**
   * Stores a new generation, from a file or any stream of bytes; memory stays bounded. A file is read through one descriptor and
   * must not change meanwhile (SOURCE_CHANGED). Files are sent anew after a failure, streams are not.
   * @throws SessionHeldError, FencedError, GenerationGoneError (deleted meanwhile), TooLargeError, ExhaustedError, UnavailableError
   */
  async save(blob: string, source: BlobSource, options: SaveOptions = {}): Promise<SaveResult> {
    checkKnown('blobs.save', options, SAVE)
    const content = await toSource(source)
    try {
      return await this.saveSource(blob, content, options)
    } finally {
      await content.close()
    }
  }

  /** @internal */
  async saveSource(blob: string, content: Source, options: SaveOptions): Promise<SaveResult> {
    const idleMs = milliseconds('blobs.save: idleTimeout', options.idleTimeout, 40_000)
    const retryMs = milliseconds('blobs.save: retryFor', options.retryFor, 30_000)
    const header = {
      ...this.#name(blob),
      // The same over all tries: one that had succeeded is not stored twice.
      requestId: randomUUID(),
      contentDigest: Buffer.from(options.contentDigest ?? []),
      fence: BigInt(options.fence ?? 0),
      labels: { ...options.labels },
    }
    const answer = await again(content.repeatable ? retryMs : 0, () => saveOnce(this.connection, header, content, idleMs))
    const outcome = answer.outcome === SaveBlobResponse_Outcome.OUTCOME_UNCHANGED ? 'unchanged' : 'saved'
    return { outcome, blob: toInfo(answer.blob), durability: answer.durability }
  }

  /**
   * Writes a generation, by default the current one, to the file `path`. Its directory is made. The name appears, or the file of
   * that name is replaced, only when everything was verified and is on disk; until then it is `path.part-…`, mode 0600.
   * @throws NotFoundError, CorruptBlobError, GenerationGoneError, UnavailableError
   */
  async fetch(blob: string, path: string, options: { generation?: number } & TransferOptions = {}): Promise<BlobInfo> {
    checkKnown('blobs.fetch', options, FETCH)
    if (typeof path !== 'string' || path === '') throw new TypeError('blobs.fetch: path must be a text that is not empty')
    const idleMs = milliseconds('blobs.fetch: idleTimeout', options.idleTimeout, 40_000)
    const retryMs = milliseconds('blobs.fetch: retryFor', options.retryFor, 30_000)
    const request = { ...this.#name(blob), generation: options.generation ?? 0 }
    return again(retryMs, () => fetchToFile(this.connection, request, path, idleMs))
  }

  /** The bytes of a generation as they come. Only when it ends without an error was that all. One try. */
  read(blob: string, options: { generation?: number; idleTimeout?: Duration } = {}): AsyncGenerator<Uint8Array, void, undefined> {
    checkKnown('blobs.read', options, ['generation', 'idleTimeout'])
    const idleMs = milliseconds('blobs.read: idleTimeout', options.idleTimeout, 40_000)
    return fetchChunks(this.connection, { ...this.#name(blob), generation: options.generation ?? 0 }, idleMs, () => {})
  }

  /** What is known of a blob, also of one that does not exist. `timeout`: default as of `connect`. */
  async stat(blob: string, options: { timeout?: Duration } = {}): Promise<BlobStatus> {
    checkKnown('blobs.stat', options, ['timeout'])
    const timeoutMs = milliseconds('blobs.stat: timeout', options.timeout, this.timeoutMs)
    const answer = await this.connection.unary(Service.statBlob, this.#name(blob), timeoutMs)
    return {
      blob: answer.exists ? toInfo(answer.blob) : undefined,
      lastError: answer.lastError && { reason: answer.lastError.reason, message: answer.lastError.message, at: answer.lastError.at },
      archives: answer.archives.map(toArchive),
      uploads: answer.uploads,
    }
  }

  /** The current generations of all blobs of the namespace, in no order. */
  async *list(): AsyncGenerator<BlobInfo, void, undefined> {
    for await (const { blobs } of this.#pages(false)) for (const blob of blobs) yield toInfo(blob)
  }

  /** What `restore` can bring back, in the whole namespace. */
  async *deleted(): AsyncGenerator<BlobArchive, void, undefined> {
    for await (const { archives } of this.#pages(true)) for (const archive of archives) yield toArchive(archive)
  }

  /** All generations of a blob, newest first: current, kept, deleted, dropped. */
  async generations(blob: string): Promise<BlobInfo[]> {
    const answer = await this.connection.unary(Service.listGenerations, this.#name(blob), this.timeoutMs)
    return answer.generations.map(toInfo)
  }

  /** Makes a kept generation the current one. @throws GenerationGoneError, NotFoundError, SessionHeldError, FencedError */
  async rollback(blob: string, generation: number, options: FenceOption = {}): Promise<BlobInfo> {
    checkKnown('blobs.rollback', options, ['fence'])
    const request = { ...this.#name(blob), generation: BigInt(generation), fence: BigInt(options.fence ?? 0) }
    return toInfo((await this.connection.unary(Service.rollbackBlob, request, this.timeoutMs)).blob)
  }

  /**
   * Deletes a blob; false if there was none. `soft` (default) keeps an archive for 7 days, at most 3 a blob; `shred` makes it
   * unreadable at once, archives too. Saves that are going on end with GenerationGoneError.
   */
  async delete(blob: string, options: { mode?: 'soft' | 'shred' } & FenceOption = {}): Promise<boolean> {
    checkKnown('blobs.delete', options, ['mode', 'fence'])
    const shred = options.mode === 'shred'
    // Naming what is meant, a late repetition cannot hit a newer blob of the name.
    const incarnation = shred ? 0 : ((await this.stat(blob)).blob?.incarnation ?? 0)
    const mode = shred ? DeleteBlobRequest_Mode.MODE_SHRED : DeleteBlobRequest_Mode.MODE_SOFT
    // Also where nothing is: it ends the uploads.
    const request = { ...this.#name(blob), mode, incarnation: BigInt(incarnation), fence: BigInt(options.fence ?? 0) }
    return (await this.connection.unary(Service.deleteBlob, request, this.timeoutMs)).deleted
  }

  /**
   * Brings an archive back, all its generations: the newest, or the one named. With `replace` the blob that is there becomes an
   * archive; without it that is a WrongStateError.
   */
  async restore(blob: string, options: { incarnation?: number; replace?: boolean } & FenceOption = {}): Promise<BlobInfo> {
    checkKnown('blobs.restore', options, ['incarnation', 'replace', 'fence'])
    // Naming it makes a repetition after a lost answer harmless.
    const incarnation = options.incarnation ?? (await this.stat(blob)).archives[0]?.incarnation ?? 0
    const request = { ...this.#name(blob), incarnation: BigInt(incarnation), replace: options.replace ?? false, fence: BigInt(options.fence ?? 0) }
    return toInfo((await this.connection.unary(Service.restoreBlob, request, this.timeoutMs)).blob)
  }

  #pages(deleted: boolean): AsyncGenerator<ListBlobsResponse, void, undefined> {
    return pages(cursor => this.connection.unary(Service.listBlobs, { namespace: this.namespace, cursor, limit: 100, deleted }, this.timeoutMs))
  }

  #name(blob: string): { namespace: string; blob: string } {
    return { namespace: this.namespace, blob }
  }
}

/** Tries until it succeeds, fails for good, or `forMs` after the first failure. */
function again<T>(forMs: number, work: () => Promise<T>): Promise<T> {
  let until: number | undefined
  return retried(work, (failure, waitMs) => {
    until ??= performance.now() + forMs
    return AGAIN.has(failure.reason) && performance.now() + waitMs < until
  })
}
