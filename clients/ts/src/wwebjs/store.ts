// A store for RemoteAuth of whatsapp-web.js 1.26.0 to 1.34.7. What it has stored once is never lost to a bad archive, an outage or a
// conflict; and nothing it does ends the process, since nothing in whatsapp-web.js catches a store's rejection.

import { open, type FileHandle } from 'node:fs/promises'
import { isAbsolute, join, resolve } from 'node:path'
import type { BlobStatus, SaveOptions, SaveResult } from '../blobs/index.js'
import { unchangedFile } from '../blobs/source.js'
import { makeError, type PannierError, UnavailableError } from '../errors.js'
import { checkKnown, milliseconds, type Duration } from '../options.js'
import type { Pannier } from '../pannier.js'
import { retried } from '../waiting.js'
import { inspect } from './archive.js'
import { sessionKey } from './key.js'
import { SESSION_ARCHIVE } from './layout.js'
import { tell, type OnError, type Operation } from './report.js'

/** Everything is optional. */
export interface PannierStoreOptions {
  /** The `dataPath` that RemoteAuth was given; where its zip is looked for. Default `./.wwebjs_auth/`, as there. */
  dataPath?: string
  /**
   * What a failed `save` does. `report` (default): it tells `onError` and resolves, since a rejection would end the process of a
   * bot with the stock RemoteAuth. `throw`: it rejects.
   */
  saveErrors?: 'report' | 'throw'
  /** Told of failed saves (`report`) and deletes. Default: a process warning. */
  onError?: OnError
  /**
   * What `delete` does. `soft` (default): the archive can be restored for 7 days. `keep`: nothing; for the stock RemoteAuth, which
   * deletes the session also when another browser takes over (CONFLICT).
   */
  onDelete?: 'soft' | 'keep'
  /** For how long `sessionExists`, `extract` and `delete` try while the answer is not certain. Default 30 s. */
  retryFor?: Duration
}

/** Of one question. */
const TRY_MS = 5000
const KNOWN = ['dataPath', 'saveErrors', 'onError', 'onDelete', 'retryFor'] as const

/** See the top of this file. */
export class PannierStore {
  readonly #pannier: Pannier
  readonly #dataPath: string
  readonly #saveErrors: 'report' | 'throw'
  readonly #onDelete: 'soft' | 'keep'
  readonly #onError: OnError | undefined
  readonly #retryMs: number
  readonly #failures = new Map<string, { reason: string; message: string; at: Date }>()

  constructor(pannier: Pannier, options: PannierStoreOptions = {}) {
    checkKnown('PannierStore', options, KNOWN)
    this.#pannier = pannier
    this.#dataPath = resolve(options.dataPath ?? './.wwebjs_auth/')
    this.#saveErrors = oneOf('saveErrors', options.saveErrors ?? 'report', ['report', 'throw'])
    this.#onDelete = oneOf('onDelete', options.onDelete ?? 'soft', ['soft', 'keep'])
    this.#onError = options.onError
    this.#retryMs = milliseconds('PannierStore: retryFor', options.retryFor, 30_000)
  }

  /** The connection it stores through. */
  get pannier(): Pannier {
    return this.#pannier
  }

  /** Whether there is an archive. Rejects rather than guess: a wrong "no" makes RemoteAuth wipe the profile. */
  async sessionExists({ session }: { session: string }): Promise<boolean> {
    const key = this.#key(session)
    return (await this.certainStatus(key)).blob !== undefined
  }

  /**
   * Stores the zip that RemoteAuth has made: `path`, else the newest of `<session>.zip` where `session` is an absolute path,
   * `<key>.zip` in `dataPath`, and `<key>.zip` in the working directory. An archive that is not whole, or holds no IndexedDB, is refused, and the
   * one before stays.
   */
  async save({ session, path }: { session: string; path?: string }): Promise<void> {
    const key = this.#key(session)
    try {
      await this.saveArchive(key, await this.#find(session, key, path))
    } catch (error) {
      this.noteFailure(key, error)
      if (this.#saveErrors === 'throw') throw error
      this.#tell(error, 'save', key)
    }
  }

  /** Writes the archive to `path`. Resolves only when the file is there, verified. */
  async extract({ session, path }: { session: string; path: string }): Promise<void> {
    const key = this.#key(session)
    if (typeof path !== 'string' || path === '') throw new TypeError('PannierStore.extract: path must be a text that is not empty')
    await this.#pannier.blobs.fetch(key, path, { retryFor: this.#retryMs })
  }

  /** Deletes softly; see `onDelete`. A failure goes to `onError`: a rejection would leave the client half disconnected. */
  async delete({ session }: { session: string }): Promise<void> {
    const key = this.#key(session)
    if (this.#onDelete === 'keep') return
    try {
      await this.remove(key, undefined)
    } catch (error) {
      this.#tell(error, 'delete', key)
    }
  }

  /** When it was last saved, its size and generation, what went wrong last (here or in the sidecar), and what can be restored. */
  async status(session: string): Promise<BlobStatus> {
    const key = this.#key(session)
    const status = await this.#pannier.blobs.stat(key)
    const mine = this.#failures.get(key)
    const isNewer = mine && (status.lastError?.at?.getTime() ?? 0) < mine.at.getTime()
    return isNewer ? { ...status, lastError: mine } : status
  }

  /** @internal For `status`: archives that never came to the sidecar. */
  noteFailure(key: string, cause: unknown): void {
    const error = cause as Partial<PannierError>
    this.#failures.set(key, { reason: error.reason ?? error.code ?? 'UNKNOWN', message: error.message ?? String(cause), at: new Date() })
  }

  /** @internal Whether there is an archive, and what was deleted; rejects when that is not certain. */
  certainStatus(key: string): Promise<BlobStatus> {
    return this.#certain(timeout => this.#pannier.blobs.stat(key, { timeout }))
  }

  /** @internal Deletes softly; rejects when that fails. */
  remove(key: string, fence: number | undefined): Promise<boolean> {
    return this.#certain(() => this.#pannier.blobs.delete(key, { fence }))
  }

  /** @internal Checks and stores an archive, and closes the file; always rejects when that fails. */
  async saveArchive(key: string, file: FileHandle, options: SaveOptions = {}): Promise<SaveResult> {
    try {
      const look = await file.stat({ bigint: true })
      const { contentDigest } = await inspect(file, SESSION_ARCHIVE)
      // What was looked through is what is stored: the file must not have changed since.
      return await this.#pannier.blobs.saveSource(key, unchangedFile(file, look), { ...options, contentDigest, retryFor: this.#retryMs })
    } finally {
      await file.close()
    }
  }

  /** The zip: where the caller says, else the newest of the places where some version leaves it; older ones are leftovers of a crash. */
  async #find(session: string, key: string, path: string | undefined): Promise<FileHandle> {
    const tried: string[] = []
    const opened = async (place: string): Promise<FileHandle | undefined> => {
      try {
        return await open(place, 'r')
      } catch (cause) {
        const { code, message } = cause as NodeJS.ErrnoException
        tried.push(`${place} (${code ?? message})`)
        return undefined
      }
    }
    const given = path === undefined ? undefined : await opened(path)
    if (given) return given
    const places = [...(isAbsolute(session) ? [`${session}.zip`] : []), join(this.#dataPath, `${key}.zip`), resolve(`${key}.zip`)]
    let newest: { file: FileHandle; at: bigint } | undefined
    for (const place of new Set(places)) {
      const file = await opened(place)
      if (!file) continue
      const at = (await file.stat({ bigint: true })).mtimeNs
      if (newest && newest.at >= at) await file.close()
      else {
        await newest?.file.close()
        newest = { file, at }
      }
    }
    if (newest) return newest.file
    throw makeError({ code: 'INVALID_ARGUMENT', reason: 'SOURCE_UNREADABLE', message: `there is no archive to save; tried ${tried.join(', ')}` })
  }

  async #certain<T>(ask: (leftMs: number) => Promise<T>): Promise<T> {
    const until = performance.now() + this.#retryMs
    let away: UnavailableError | undefined
    try {
      return await retried(
        () => ask(Math.max(100, Math.min(TRY_MS, until - performance.now()))),
        (failure, waitMs) => {
          const why = failure.reason === 'DEADLINE_EXCEEDED' ? failure.cause : failure
          if (why instanceof UnavailableError) away = why
          return failure.retryable && failure.reason !== 'SESSION_HELD' && performance.now() + waitMs < until
        },
      )
    } catch (error) {
      // That the time is over says less than why there was no answer in it.
      throw away && (error as PannierError).reason === 'DEADLINE_EXCEEDED' ? away : error
    }
  }

  #key(session: string): string {
    const key = sessionKey(session)
    if (key === 'RemoteAuth' && this.#pannier.namespace === 'default') warnShared()
    return key
  }

  #tell(error: unknown, operation: Operation, key: string): void {
    tell(this.#onError, error, operation, key)
  }
}

let warned = false

/** Every client without a clientId has this name: two of them would store over each other. */
function warnShared(): void {
  if (warned) return
  warned = true
  process.emitWarning('pannier: RemoteAuth without a clientId: every such client of the namespace "default" shares one archive. Give a clientId, or connect({ namespace })', {
    type: 'PannierWarning',
    code: 'PANNIER_SHARED_NAME',
  })
}

function oneOf<T extends string>(name: string, value: T, known: readonly T[]): T {
  if (!known.includes(value)) throw new TypeError(`PannierStore: ${name} must be ${known.map(one => `'${one}'`).join(' or ')}`)
  return value
}
