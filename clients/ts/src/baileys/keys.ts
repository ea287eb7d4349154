// Baileys' key store over Records: what Baileys expects of `get` and `set`, and no more.

import { closed, type PannierError } from '../errors.js'
import type { RecordName } from '../stream/commit-codec.js'
import { CREDS } from './creds.js'
import type { Handle, Life } from './handle.js'
import { decode, define, encode, type Encoded } from './json.js'

/** Sizes at which a record shows that something grows without bound. */
const LARGE: Readonly<Record<string, number>> = { session: 64 * 1024, 'sender-key': 128 * 1024 }
/** A warning of a type comes at most this often. */
const WARN_EVERY_MS = 60_000

/** The keys of one auth state. */
export class KeyStore {
  #closed: PannierError | undefined
  readonly #warned = new Map<string, number>()

  constructor(
    private readonly handle: Handle,
    private readonly life: Life,
  ) {}

  /** The values of the ids that exist, each a fresh object. Known ones take no call. */
  async get(type: string, ids: readonly string[]): Promise<Record<string, unknown>> {
    this.#check('get')
    const { records } = this.handle
    const found: Record<string, unknown> = {}
    let ask: string[] | undefined
    for (const given of ids) {
      const id = String(given)
      const known = records.peek(type, id)
      if (known === undefined) (ask ??= []).push(id)
      else if (known !== null) define(found, id, this.#value(type, known))
    }
    if (ask === undefined) return found
    let values: Map<string, Encoded | undefined>
    try {
      values = await records.read(type, ask)
    } catch (error) {
      this.handle.readFailed(error as PannierError)
      throw error
    }
    // Cleared or lost meanwhile: what came belongs to a state that is over.
    if (this.life.over) throw this.life.over
    for (const [id, value] of values) if (value) define(found, id, this.#value(type, value))
    return found
  }

  /** Stores all, or nothing. Falsy values delete. The content is that of the moment of the call. */
  async set(data: object): Promise<void> {
    this.#check('set')
    const puts: { type: string; id: string; value: Encoded }[] = []
    const deletes: RecordName[] = []
    for (const [type, values] of Object.entries(data) as [string, Record<string, unknown> | null | undefined][]) {
      if (!values) continue
      if (type === CREDS) throw new TypeError('creds are stored with saveCreds, not with keys.set')
      for (const id of Object.keys(values)) {
        const given = values[id]
        if (!given) {
          deletes.push({ type, id })
          continue
        }
        const value = encode(given)
        const limit = LARGE[type]
        if (limit !== undefined && value.size > limit) this.#warn(type, value.size)
        puts.push({ type, id, value })
      }
    }
    if (puts.length === 0 && deletes.length === 0) return
    this.life.saver.before()
    await this.handle.records.write({ puts, deletes })
  }

  async listIds(type: string): Promise<string[]> {
    this.#check('listIds')
    const ids: string[] = []
    for await (const { id } of this.handle.walk(type, true)) ids.push(id)
    return ids
  }

  async list(type: string): Promise<Record<string, unknown>> {
    this.#check('list')
    const all: Record<string, unknown> = {}
    for await (const { id, value } of this.handle.walk(type, false)) define(all, id, this.#alive(type, value))
    return all
  }

  /** This auth state is given back: its later calls reject. */
  close(): void {
    this.#closed ??= closed('this auth state')
  }

  /** A rejection, handled, if calls are not possible any more. */
  rejected(call: string): Promise<never> | undefined {
    const why = this.#tooLate(call)
    if (why === undefined) return undefined
    const rejection = Promise.reject<never>(why)
    rejection.catch(() => {})
    return rejection
  }

  #check(call: string): void {
    const why = this.#tooLate(call)
    if (why) throw why
  }

  #tooLate(call: string): PannierError | undefined {
    const why = this.life.over ?? this.#closed
    if (why === undefined) return undefined
    const { events } = this.handle
    events.log('warn', `${call} came too late`, { reason: why.reason })
    events.emit('late', { call })
    return why
  }

  #value(type: string, stored: Encoded): unknown {
    return this.#alive(type, decode(stored))
  }

  /** Baileys wants this type as its class. */
  #alive(type: string, value: unknown): unknown {
    if (type !== 'app-state-sync-key' || typeof value !== 'object' || value === null) return value
    return this.handle.baileys.proto.Message.AppStateSyncKeyData.fromObject(value as Record<string, unknown>)
  }

  #warn(type: string, bytes: number): void {
    const now = Date.now()
    if (now - (this.#warned.get(type) ?? 0) < WARN_EVERY_MS) return
    this.#warned.set(type, now)
    this.handle.events.log('warn', 'a record is unusually large', { type, bytes })
  }
}
