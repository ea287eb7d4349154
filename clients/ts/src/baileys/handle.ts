// One session, open in this process: its stream, cache and live creds, shared by every auth state handed out for it.
//
// Fail stop: once the lease is lost, or a read has failed for good, every call rejects and `fatal` is emitted. Fresh
// credentials are made only where the sidecar says for certain that there is nothing.

import { randomUUID } from 'node:crypto'
import type { AuthenticationCreds } from 'baileys'
import { placeOf, seen, seenRevision, type Seen } from '../acknowledged.js'
import type { Connection } from '../connection.js'
import { ClosedError, makeError, type PannierError, SessionHeldError } from '../errors.js'
import { OnHeld, ValueKind } from '../gen/pannier/v1/session.js'
import { pages } from '../pages.js'
import type { Pannier } from '../pannier.js'
import type { OpenResult } from '../stream/handshake.js'
import { SessionStream } from '../stream/session-stream.js'
import { atMost } from '../waiting.js'
import { RecordCache } from './cache.js'
import { CREDS, CredsSaver } from './creds.js'
import { Events } from './events.js'
import { decode, encode } from './json.js'
import { findBaileys, type BaileysLibrary } from './library.js'
import { decoded, Records, READ_MS } from './records.js'
import type { Settings } from './settings.js'

/** A life of the session: from its opening, or a clear, to the next clear. */
export interface Life {
  creds: AuthenticationCreds
  saver: CredsSaver
  /** Why calls on it are rejected; undefined while it is the present one. */
  over: PannierError | undefined
  /** Settles when it has been cleared. */
  clearing?: Promise<void>
}

const PAGE = 1000
const CLEAR_MS = 30_000

/** See the top of this file. */
export class Handle {
  readonly events: Events
  readonly records: Records
  readonly stream: SessionStream
  baileys!: BaileysLibrary
  /** Why it is of no more use. */
  failure: PannierError | undefined
  /** Called once, then; `done`: it has let go of the lease. */
  onOver: (done: Promise<void>) => void = () => {}
  #life: Life | undefined
  #starting: Promise<Life> | undefined
  readonly #place: string
  #seen: Seen = { incarnation: 0, revision: 0 }

  constructor(
    pannier: Pannier,
    readonly session: string,
    readonly settings: Settings,
  ) {
    const { namespace } = pannier
    this.events = new Events(settings.logger, { namespace })
    this.#place = placeOf(pannier.address, namespace, session)
    const request = {
      namespace,
      session,
      owner: settings.owner,
      // Numbers of commits count per writer: a process of the same owner must not use ours.
      writerId: randomUUID(),
      onHeld: OnHeld.ON_HELD_FAIL,
      waitMs: settings.waitMs,
      leaseTtlMs: settings.leaseTtlMs,
      minRevision: Math.max(settings.minRevision, seenRevision(this.#place)),
      mustExist: false,
      resume: undefined,
      preloadTypes: settings.preload.includes(CREDS) ? settings.preload : [CREDS, ...settings.preload],
    }
    const cache = new RecordCache(settings.cacheBytes)
    this.stream = new SessionStream(pannier.connection, request, {
      onLost: error => this.fail(error),
      onForeignWrite: () => {
        cache.drop()
        this.events.log('warn', 'somebody else wrote to this session: the cache was dropped')
        this.events.emit('conflict')
      },
      onSuspend: () => {
        this.events.log('warn', 'the lease was not renewed: stop sending until it is')
        this.events.emit('suspend')
      },
      onResume: () => {
        this.events.log('info', 'the lease is renewed again')
        this.events.emit('resume')
      },
      onRetry: (error, attempt) => {
        this.events.log(attempt > 3 ? 'warn' : 'debug', attempt === 0 ? 'the stream broke; attaching again' : 'failed; trying again', {
          reason: error.reason,
          detail: error.message,
          attempt,
        })
        this.events.emit('retry', { error, attempt })
      },
    })
    this.records = new Records(this.stream, cache)
    this.records.onCommitted = (batch, answer, ms) => {
      this.#seen.revision = this.stream.revision
      if (!this.events.has('commit')) return
      const bytes = batch.puts.reduce((sum, put) => sum + put.value.size, 0)
      this.events.emit('commit', { revision: answer.revision, records: batch.puts.length + batch.deletes.length, bytes, ms })
    }
  }

  /** Takes the lease and loads what is there. */
  async open(): Promise<void> {
    const [opened, baileys] = await Promise.all([this.#take(), findBaileys(this.settings.baileys)])
    this.baileys = baileys
    const { cache } = this.records
    const { created, incarnation, preloadComplete, records, revision } = opened
    this.#seen = seen(this.#place, incarnation, revision)
    if (created) cache.empty()
    for (const record of records) cache.set(record.type, record.id, decoded(record))
    // What did not fit in the cache makes its type incomplete again.
    if (preloadComplete) cache.completed([CREDS, ...this.settings.preload].filter(type => records.length === 0 || fits(cache, type, records)))
    this.#starting = this.#start([...opened.counts.keys()].some(type => type !== CREDS))
    this.#life = await this.#starting
  }

  /** The present life; a new one after clear(). */
  async life(): Promise<Life> {
    await this.#life?.clearing?.catch(() => {})
    if (this.failure) throw this.failure
    if (this.#life && !this.#life.over) return this.#life
    this.#starting ??= this.#start(false)
    this.#life = await this.#starting
    return this.#life
  }

  /** Soft-deletes all records; `life` is over at once. */
  clear(life: Life): Promise<void> {
    if (life.clearing) return life.clearing
    if (life.over) return Promise.reject(life.over)
    life.over = makeError({ code: 'ABORTED', reason: 'OUTDATED_STATE', message: 'the session was cleared' })
    life.saver.stop(life.over)
    this.#starting = undefined
    life.clearing = this.stream.clear(CLEAR_MS).then(
      ({ incarnation, revision }) => {
        Object.assign(this.#seen, { incarnation, revision })
        this.records.cache.empty()
        this.events.log('info', 'the session was cleared; an archive is kept for 7 days')
      },
      (error: PannierError) => {
        // Nobody knows for certain what is there now.
        this.fail(error)
        throw error
      },
    )
    life.clearing.catch(() => {})
    return life.clearing
  }

  /** A read failed for good: fail stop, except for a corrupt record, which says what it is. */
  readFailed(error: PannierError): void {
    if (error.reason === 'CORRUPT_RECORD') this.events.log('error', 'a stored record is corrupt', { type: error.metadata.type })
    else if (error.code !== 'INVALID_ARGUMENT') this.fail(error)
  }

  /** The connection it goes over. */
  get connection(): Connection {
    return this.stream.connection
  }

  /** Goes on over another connection to the same sidecar. */
  move(connection: Connection): void {
    this.stream.move(connection)
  }

  /** Ends it: everything rejects from now on. Not a failure: that the connection was closed. */
  fail(error: PannierError): void {
    if (this.failure || error instanceof ClosedError) return
    this.failure = error
    if (this.#life) {
      this.#life.over ??= error
      this.#life.saver.stop(error)
    }
    this.events.log('error', 'this session cannot go on in this process', { reason: error.reason, detail: error.message, hint: error.hint })
    this.events.emit('fatal', error)
    // The lease goes back if it is still ours; what is on its way may still arrive.
    this.onOver(this.stream.close(5000))
  }

  /** Stores what is pending, releases the lease. Ends within `timeoutMs`. */
  async close(timeoutMs: number): Promise<void> {
    const life = this.#life
    const deadline = performance.now() + timeoutMs
    if (life && !life.over) {
      await atMost(timeoutMs, life.saver.flush().catch(() => {}))
      life.over ??= makeError({ code: 'CANCELLED', reason: 'CLOSED', message: 'the session is closed' })
      life.saver.stop(life.over)
    }
    const done = this.stream.close(Math.max(0, deadline - performance.now()))
    this.onOver(done)
    await done
  }

  /** All ids, or records, of a type. */
  async *walk(type: string, idsOnly: boolean): AsyncGenerator<{ id: string; value: unknown }> {
    await this.records.idle()
    const seen = new Set<string>()
    for await (const page of pages(cursor => this.stream.list(type, cursor, PAGE, idsOnly, READ_MS))) {
      if (page.corrupt > 0) {
        throw makeError({ code: 'DATA_LOSS', reason: 'CORRUPT_RECORD', message: `${page.corrupt} records cannot be opened`, metadata: { type } })
      }
      for (const record of page.records) {
        // A walk may come past the same record twice.
        if (seen.has(record.id)) continue
        seen.add(record.id)
        yield { id: record.id, value: idsOnly ? undefined : decode(decoded(record)) }
      }
    }
  }

  async #take(): Promise<OpenResult> {
    const { onHeld, openMs } = this.settings
    if (onHeld === 'takeOver') return this.stream.open(OnHeld.ON_HELD_TAKE_OVER, openMs)
    try {
      return await this.stream.open(OnHeld.ON_HELD_FAIL, openMs)
    } catch (error) {
      if (onHeld === 'fail' || !(error instanceof SessionHeldError)) throw error
      const { owner, until } = error
      this.events.log('warn', 'another owner holds this session; waiting for it', { owner, until })
      this.events.emit('held', { owner, until })
      return this.stream.open(OnHeld.ON_HELD_WAIT, openMs)
    }
  }

  /** Reads creds, or makes them where there are none for certain. `others`: there are records of other types. */
  async #start(others: boolean): Promise<Life> {
    const stored = (await this.records.read(CREDS, [CREDS])).get(CREDS)
    let creds: AuthenticationCreds
    if (stored === undefined) {
      if (others) {
        throw makeError({
          code: 'FAILED_PRECONDITION',
          reason: 'WRONG_STATE',
          message: 'the session has Signal keys but no creds: new ones would not fit them; import the creds, or delete the session',
        })
      }
      creds = this.baileys.initAuthCreds()
      await this.records.write({ puts: [{ type: CREDS, id: CREDS, value: encode(creds) }], deletes: [] })
    } else {
      creds = (stored.kind === ValueKind.VALUE_KIND_JSON ? parsed(() => decode(stored)) : undefined) as AuthenticationCreds
      if (typeof creds?.noiseKey !== 'object' || typeof creds.signedIdentityKey !== 'object') {
        throw makeError({
          code: 'DATA_LOSS',
          reason: 'CORRUPT_RECORD',
          message: 'the stored creds are not those of Baileys in BufferJSON form: something else wrote them',
          metadata: { type: CREDS },
        })
      }
    }
    return { creds, saver: new CredsSaver(creds, this.records, this.events.log), over: undefined }
  }
}

function fits(cache: RecordCache, type: string, records: readonly { type: string; id: string }[]): boolean {
  return records.every(record => record.type !== type || cache.get(type, record.id) !== undefined)
}

function parsed(read: () => unknown): unknown {
  try {
    return read()
  } catch {
    return undefined
  }
}
