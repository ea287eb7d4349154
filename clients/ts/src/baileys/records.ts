// Reads and writes of one open session, with the cache in front. Kept here: a get of an id with a pending set waits for that set;
// other ids never wait; the cache changes only when the sidecar has acknowledged; a failed read is never "missing".

import { makeError, type PannierError } from '../errors.js'
import type { CommittedAnswer, StoredRecord } from '../stream/answer-codec.js'
import type { CommitBody, PutItem, RecordName } from '../stream/commit-codec.js'
import type { SessionStream } from '../stream/session-stream.js'
import type { RecordCache } from './cache.js'
import { fromStored, type Encoded } from './json.js'

/** A commit's content, taken at the time of the call. */
export interface Batch {
  puts: { type: string; id: string; value: Encoded }[]
  deletes: RecordName[]
  attributes?: Uint8Array | undefined
}

/** How long a read is tried again, in milliseconds. */
export const READ_MS = 30_000
/** How long a commit is tried again. */
export const COMMIT_MS = 30_000
const IDS_A_GET = 1000
const LARGEST = 16 * 1024 * 1024

/** A read of some ids of one type, that waits for its batch. */
interface Wanted {
  type: string
  ids: string[]
  resolve: (found: Map<string, Encoded | undefined>) => void
  reject: (error: PannierError) => void
}

/** A commit whose answer is due: settles with it, and never rejects. */
type Write = Promise<void>

/** A Get on its way. `stale`: what was written since it was asked; it must not be cached. */
interface Fetch {
  stale: Set<string>
}

/** See the top of this file. */
export class Records {
  /** Told of each commit that is in. */
  onCommitted: ((batch: Batch, answer: CommittedAnswer, ms: number) => void) | undefined
  readonly #writes = new Set<Write>()
  /** The same by type and id: several at once, of which any may be answered first, as one that is refused is. */
  readonly #pending = new Map<string, Map<string, Set<Write>>>()
  readonly #fetches = new Set<Fetch>()
  #wanted: Wanted[] = []

  constructor(
    private readonly stream: SessionStream,
    readonly cache: RecordCache,
  ) {}

  /** A value known without asking; undefined: ask. null: known to be missing. */
  peek(type: string, id: string): Encoded | null | undefined {
    return this.#pending.get(type)?.has(id) ? undefined : this.cache.get(type, id)
  }

  /** Values of ids; undefined: there is no such record. */
  async read(type: string, ids: readonly string[]): Promise<Map<string, Encoded | undefined>> {
    const found = new Map<string, Encoded | undefined>()
    let left = [...new Set(ids)]
    while (left.length > 0) {
      const waits: Write[] = []
      const later: string[] = []
      const ask: string[] = []
      for (const id of left) {
        const writes = this.#pending.get(type)?.get(id)
        if (writes) {
          waits.push(...writes)
          later.push(id)
          continue
        }
        const known = this.cache.get(type, id)
        if (known === undefined) ask.push(id)
        else found.set(id, known ?? undefined)
      }
      const asked = ask.length > 0 ? this.#ask(type, ask) : undefined
      for (const write of waits) await write
      if (asked) for (const [id, value] of await asked) found.set(id, value)
      left = later
    }
    return found
  }

  /** Writes, all or nothing. The order is that of the calls. */
  write(batch: Batch): Promise<void> {
    let largest = 0
    for (const { value } of batch.puts) if (value.size > largest) largest = value.size
    if (largest > LARGEST) {
      return Promise.reject(makeError({ code: 'INVALID_ARGUMENT', reason: 'TOO_LARGE', message: `a value may have ${LARGEST} bytes; this one has ${largest}` }))
    }
    const names: RecordName[] = batch.puts.length === 0 ? batch.deletes : [...batch.puts, ...batch.deletes]
    const puts: PutItem[] = batch.puts.map(({ type, id, value }) => ({ type, id, kind: value.kind, value: value.value, size: value.size }))
    const body: CommitBody = { puts, deletes: batch.deletes, attributes: batch.attributes }
    for (const fetch of this.#fetches) for (const { type, id } of names) fetch.stale.add(`${type}\0${id}`)
    const started = performance.now()
    const done: Promise<void> = this.stream
      .commit(body, COMMIT_MS, answer => {
        for (const { type, id, value } of batch.puts) this.cache.set(type, id, value)
        for (const { type, id } of batch.deletes) this.cache.set(type, id, undefined)
        this.onCommitted?.(batch, answer, performance.now() - started)
      })
      .then(
        () => this.#settled(names, write),
        (error: PannierError) => {
          // It may be there or not: nothing that was known is safe any more.
          if (error.outcomeUnknown) this.cache.drop()
          this.#settled(names, write)
          throw error
        },
      )
    const write: Write = done.catch(() => {})
    this.#writes.add(write)
    for (const { type, id } of names) {
      let ids = this.#pending.get(type)
      if (ids === undefined) this.#pending.set(type, (ids = new Map<string, Set<Write>>()))
      const writes = ids.get(id)
      if (writes) writes.add(write)
      else ids.set(id, new Set([write]))
    }
    return done
  }

  /** Waits for the writes that are pending now. */
  async idle(): Promise<void> {
    await Promise.all(this.#writes)
  }

  #settled(names: readonly RecordName[], write: Write): void {
    this.#writes.delete(write)
    for (const { type, id } of names) {
      const ids = this.#pending.get(type)
      const writes = ids?.get(id)
      if (!ids || !writes) continue
      writes.delete(write)
      if (writes.size > 0) continue
      ids.delete(id)
      if (ids.size === 0) this.#pending.delete(type)
    }
  }

  /** Reads from the sidecar. What is asked in one tick goes in one Get. */
  #ask(type: string, ids: string[]): Promise<Map<string, Encoded | undefined>> {
    return new Promise((resolve, reject) => {
      this.#wanted.push({ type, ids, resolve, reject })
      if (this.#wanted.length === 1) queueMicrotask(() => this.#flush())
    })
  }

  #flush(): void {
    const wanted = this.#wanted
    this.#wanted = []
    let group: Wanted[] = []
    let size = 0
    for (const one of wanted) {
      if (size > 0 && size + one.ids.length > IDS_A_GET) {
        void this.#fetch(group)
        group = []
        size = 0
      }
      group.push(one)
      size += one.ids.length
    }
    void this.#fetch(group)
  }

  async #fetch(group: Wanted[]): Promise<void> {
    try {
      const queries = new Map<string, Set<string>>()
      for (const { type, ids } of group) {
        const known = queries.get(type) ?? new Set()
        for (const id of ids) known.add(id)
        queries.set(type, known)
      }
      const values = await this.#get(queries)
      for (const { type, ids, resolve } of group) resolve(new Map(ids.map(id => [id, values.get(`${type}\0${id}`)])))
    } catch (error) {
      const failure = error as PannierError
      // One corrupt record, or one reply that is too large, must not fail those who asked for others.
      if (group.length > 1 && (failure.reason === 'CORRUPT_RECORD' || failure.reason === 'TOO_LARGE')) {
        for (const one of group) void this.#fetch([one])
      } else for (const one of group) one.reject(failure)
    }
  }

  async #get(queries: ReadonlyMap<string, ReadonlySet<string>>): Promise<Map<string, Encoded>> {
    const fetch: Fetch = { stale: new Set() }
    const generation = this.cache.generation
    this.#fetches.add(fetch)
    try {
      const parts = chunks(queries).map(part => this.stream.get(part, READ_MS))
      const values = new Map<string, Encoded>()
      for (const { records } of await Promise.all(parts)) for (const record of records) values.set(`${record.type}\0${record.id}`, decoded(record))
      if (generation === this.cache.generation) {
        for (const [type, ids] of queries) {
          for (const id of ids) {
            const key = `${type}\0${id}`
            if (!fetch.stale.has(key)) this.cache.set(type, id, values.get(key))
          }
        }
      }
      return values
    } finally {
      this.#fetches.delete(fetch)
    }
  }
}

/** A record as it is cached. */
export function decoded(record: StoredRecord): Encoded {
  return fromStored(record.kind, record.value)
}

/** Gets of at most 1 000 ids. */
function chunks(queries: ReadonlyMap<string, ReadonlySet<string>>): { type: string; ids: string[] }[][] {
  const all: { type: string; ids: string[] }[][] = []
  let part: { type: string; ids: string[] }[] = []
  let room = IDS_A_GET
  for (const [type, set] of queries) {
    const ids = [...set]
    for (let at = 0; at < ids.length; ) {
      const some = ids.slice(at, at + room)
      part.push({ type, ids: some })
      at += some.length
      room -= some.length
      if (room > 0) continue
      all.push(part)
      part = []
      room = IDS_A_GET
    }
  }
  if (part.length > 0) all.push(part)
  return all
}
