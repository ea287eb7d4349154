// Baileys' key store over Records: what Baileys expects of `get` and `set`, and no more.
//
// Baileys 6.7.24 goes on adding to the object that it handed to `set`, and forgets what it added once `set` has resolved. So the
// object is looked at again after each commit, and what came in meanwhile is stored before the call ends.

import { closed, type PannierError } from '../errors.js'
import type { RecordName } from '../stream/commit-codec.js'
import { CREDS } from './creds.js'
import type { Listeners } from './events.js'
import type { Handle, Life } from './handle.js'
import { decode, define, encode, type Encoded } from './json.js'
import { Prepared } from './prepared.js'

/** Sizes at which a record shows that something grows without bound. */
const LARGE: Readonly<Record<string, number>> = { session: 64 * 1024, 'sender-key': 128 * 1024 }
/** A warning of a type comes at most this often. */
const WARN_EVERY_MS = 60_000

/** What `set` was given, as it was when it was looked at. */
interface Given {
  type: string
  id: string
  value: unknown
  /** Of an object, how many keys it had: Baileys 6.7.24 also adds to values that it has set. */
  keys: number
}

/** The keys of one auth state. */
export class KeyStore {
  #closed: PannierError | undefined
  readonly #prepared = new Prepared()
  readonly #warned = new Map<string, number>()

  constructor(
    private readonly handle: Handle,
    private readonly life: Life,
    private readonly listeners: Listeners,
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

  /** Stores all, or nothing. Falsy values delete. The content is that of the moment of the call, and what was added until its end. */
  async set(data: object): Promise<void> {
    this.#check('set')
    let given = look(data)
    if (given.length === 0) return
    await this.#write(given)
    for (;;) {
      // With nothing else to run between this look and the caller's next step.
      await new Promise(setImmediate)
      const now = look(data)
      const added = difference(given, now)
      if (added.length === 0) return
      this.#check('set')
      this.#addedLate(added.length)
      await this.#write(added)
      given = now
    }
  }

  #write(given: readonly Given[]): Promise<void> {
    const puts: { type: string; id: string; value: Encoded }[] = []
    const deletes: RecordName[] = []
    for (const { type, id, value: plain } of given) {
      if (!plain) {
        deletes.push({ type, id })
        continue
      }
      const value = encode(plain)
      const limit = LARGE[type]
      if (limit !== undefined && value.size > limit) this.#warn('a record is unusually large', { type, bytes: value.size })
      puts.push({ type, id, value })
    }
    this.life.saver.before()
    const written = this.handle.records.write({ puts, deletes })
    setImmediate(() => this.#prepared.add(puts.map(({ value }) => value)))
    return written
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
    return rejection(this.#tooLate(call))
  }

  /** The same, if this state was given back. */
  rejectedIfClosed(call: string): Promise<never> | undefined {
    return this.#closed && rejection(this.#tooLate(call))
  }

  #check(call: string): void {
    const why = this.#tooLate(call)
    if (why) throw why
  }

  #tooLate(call: string): PannierError | undefined {
    const why = this.#closed ?? this.life.over
    if (why === undefined) return undefined
    this.handle.events.log('warn', `${call} came too late`, { reason: why.reason })
    this.listeners.emit('late', { call, stored: false })
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

  #addedLate(records: number): void {
    this.#warn('values were added to a set under way; they are stored too', { records })
    this.listeners.emit('late', { call: 'set', stored: true })
  }

  #warn(message: string, fields: { type?: string; [name: string]: unknown }): void {
    const now = Date.now()
    const what = fields.type ?? message
    if (now - (this.#warned.get(what) ?? 0) < WARN_EVERY_MS) return
    this.#warned.set(what, now)
    this.handle.events.log('warn', message, fields)
  }
}

function rejection(why: PannierError | undefined): Promise<never> | undefined {
  if (why === undefined) return undefined
  const rejected = Promise.reject<never>(why)
  rejected.catch(() => {})
  return rejected
}

/** @throws TypeError when creds are among them */
function look(data: object): Given[] {
  const given: Given[] = []
  for (const [type, values] of Object.entries(data) as [string, Record<string, unknown> | null | undefined][]) {
    if (!values) continue
    if (type === CREDS) throw new TypeError('creds are stored with saveCreds, not with keys.set')
    for (const id of Object.keys(values)) {
      const value = values[id]
      given.push({ type, id, value, keys: keyCount(value) })
    }
  }
  return given
}

function keyCount(value: unknown): number {
  if (typeof value !== 'object' || value === null || value instanceof Uint8Array) return 0
  return Array.isArray(value) ? value.length : Object.keys(value).length
}

/** What is in `now` and was not in `before`, or was another. */
function difference(before: readonly Given[], now: readonly Given[]): Given[] {
  if (before.length === now.length && before.every((one, at) => same(one, now[at]))) return []
  const known = new Map(before.map(one => [`${one.type}\0${one.id}`, one]))
  return now.filter(one => !same(one, known.get(`${one.type}\0${one.id}`)))
}

function same(one: Given, other: Given | undefined): boolean {
  return other !== undefined && one.id === other.id && one.type === other.type && one.value === other.value && one.keys === other.keys
}
