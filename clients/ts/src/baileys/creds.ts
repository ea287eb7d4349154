// Saving `creds`: one live object that Baileys changes in place. A save takes a snapshot; while one is on its way the newest
// snapshot waits and replaces older ones, but never past a commit of keys: what was called first is stored first.

import { BadRequestError, ClosedError, FencedError, StaleStateError, type PannierError } from '../errors.js'
import { Attributes } from '../gen/pannier/v1/session.js'
import { backoff } from '../waiting.js'
import type { LogLine } from './events.js'
import { encode, type Encoded } from './json.js'
import type { Records } from './records.js'

/** The record that holds creds. */
export const CREDS = 'creds'
/** Above this, one says so. */
const LARGE = 1024 * 1024

/** After these, the same save cannot succeed; after anything else it may, once somebody has set it right. */
const FINAL = [BadRequestError, ClosedError, FencedError, StaleStateError]

/** A snapshot and who waits for it. */
interface Snapshot {
  value: Encoded
  attributes: Uint8Array
  done: Promise<void>
  resolve: () => void
  reject: (error: unknown) => void
}

/** See the top of this file. */
export class CredsSaver {
  /** A save was asked for in this tick; its snapshot is taken at the tick's end, or before the next commit. */
  #asked: Snapshot | undefined
  /** Waits until the one on its way is in. */
  #next: Snapshot | undefined
  #onWay = 0
  /** The last save failed and nothing newer is in. */
  #failed: PannierError | undefined
  #retry: NodeJS.Timeout | undefined
  #attempt = 0
  #stopped = false
  readonly #idle: (() => void)[] = []

  constructor(
    private readonly creds: object,
    private readonly records: Records,
    private readonly log: LogLine,
  ) {}

  /** Saves what `creds` is now. May be left un-awaited: a rejection never goes unhandled, and is logged. */
  save(): Promise<void> {
    if (this.#asked === undefined) {
      this.#asked = snapshot()
      queueMicrotask(() => this.#take(false))
    }
    return this.#asked.done
  }

  /** Called before a commit of keys: what was saved before goes first. */
  before(): void {
    this.#take(true)
    this.#send()
  }

  /** Waits until everything saved so far is stored. Rejects if it is not. */
  async flush(): Promise<void> {
    this.#take(true)
    if (this.#failed && !this.#next && this.#onWay === 0) void this.save()
    this.before()
    while (this.#onWay > 0 || this.#next) {
      await new Promise<void>(resolve => this.#idle.push(resolve))
    }
     
    if (this.#failed) throw this.#failed
  }

  /** Nothing is saved any more. */
  stop(error: PannierError): void {
    this.#stopped = true
    clearTimeout(this.#retry)
    for (const waiting of [this.#asked, this.#next]) waiting?.reject(error)
    this.#asked = this.#next = undefined
  }

  /** Takes the snapshot that was asked for. */
  #take(now: boolean): void {
    const asked = this.#asked
    if (asked === undefined) return
    this.#asked = undefined
    try {
      asked.value = encode(this.creds)
      asked.attributes = attributes(this.creds)
    } catch (error) {
      asked.reject(error)
      return
    }
    if (asked.value.size > LARGE) this.log('warn', 'creds are large', { bytes: asked.value.size })
    const older = this.#next
    if (older) void asked.done.then(older.resolve, older.reject)
    this.#next = asked
    if (now || this.#onWay === 0) this.#send()
  }

  #send(): void {
    const next = this.#next
    if (next === undefined) return
    this.#next = undefined
    this.#onWay++
    clearTimeout(this.#retry)
    const batch = { puts: [{ type: CREDS, id: CREDS, value: next.value }], deletes: [], attributes: next.attributes }
    this.records.write(batch).then(
      () => {
        this.#failed = undefined
        this.#attempt = 0
        this.#done(next.resolve)
      },
      (error: PannierError) => {
        this.#failed = error
        this.log('error', 'creds could not be saved', { reason: error.reason, message: error.message })
        if (!FINAL.some(of => error instanceof of)) this.#tryLater()
        this.#done(() => next.reject(error))
      },
    )
  }

  #done(settle: () => void): void {
    this.#onWay--
    settle()
    if (this.#onWay === 0) this.#send()
    if (this.#onWay === 0) for (const resume of this.#idle.splice(0)) resume()
  }

  /** The next save could be hours away: what could not be stored is tried again. */
  #tryLater(): void {
    if (this.#stopped) return
    clearTimeout(this.#retry)
    this.#retry = setTimeout(() => void this.save(), backoff(this.#attempt++, 1000, 30_000))
    this.#retry.unref()
  }
}

function snapshot(): Snapshot {
  let resolve = (): void => {}
  let reject: (error: unknown) => void = () => {}
  const done = new Promise<void>((yes, no) => {
    resolve = yes
    reject = no
  })
  done.catch(() => {})
  return { value: { kind: 0, value: '', size: 0, care: false }, attributes: new Uint8Array(), done, resolve, reject }
}

/** What listings may show of an account. */
function attributes(creds: { registered?: unknown; me?: unknown; nextPreKeyId?: unknown }): Uint8Array {
  const { registered, me, nextPreKeyId } = creds
  const known = typeof nextPreKeyId === 'number' && Number.isSafeInteger(nextPreKeyId) && nextPreKeyId >= 0
  return Attributes.encode({
    paired: Boolean(registered) || Boolean(me),
    nextPreKeyId: known ? BigInt(nextPreKeyId) : undefined,
    labels: {},
  }).finish()
}
