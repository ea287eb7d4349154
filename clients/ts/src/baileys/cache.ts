// What is known of the stored records while the lease holds: values, and that there are none. Bounded by bytes; the least
// recently used goes first. Values are kept encoded: each read makes a fresh object.

import type { Encoded } from './json.js'

interface Entry {
  readonly type: string
  readonly id: string
  /** undefined: there is no such record. */
  value: Encoded | undefined
  bytes: number
  older: Entry | undefined
  newer: Entry | undefined
}

/** What the bookkeeping of an entry takes, roughly. */
const OVERHEAD = 160

/** See the top of this file. */
export class RecordCache {
  /** Rises when everything is dropped: what was read before must not be put in any more. */
  generation = 0
  #bytes = 0
  readonly #types = new Map<string, Map<string, Entry>>()
  #oldest: Entry | undefined
  #newest: Entry | undefined
  /** Types of which every record that exists is in here … */
  readonly #complete = new Set<string>()
  /** … or all types but these. */
  #allBut: Set<string> | undefined

  constructor(private readonly limit: number) {}

  /** Bytes held. */
  get bytes(): number {
    return this.#bytes
  }

  /** The value; null: known to be missing; undefined: not known. */
  get(type: string, id: string): Encoded | null | undefined {
    const entry = this.#types.get(type)?.get(id)
    if (entry === undefined) return this.isComplete(type) ? null : undefined
    this.#touch(entry)
    return entry.value ?? null
  }

  /** Whether a record of this type that is not here is known to be missing. */
  isComplete(type: string): boolean {
    return this.#allBut === undefined ? this.#complete.has(type) : !this.#allBut.has(type)
  }

  /** All records of these types are in here now. */
  completed(types: readonly string[]): void {
    for (const type of types) this.#complete.add(type)
  }

  /** The session is empty: whatever is not here is missing. */
  empty(): void {
    this.drop()
    this.#allBut = new Set()
  }

  set(type: string, id: string, value: Encoded | undefined): void {
    let ids = this.#types.get(type)
    if (ids === undefined) this.#types.set(type, (ids = new Map<string, Entry>()))
    const before = ids.get(id)
    if (before) this.#remove(before)
    // A missing record of a complete type needs no entry.
    if (value === undefined && this.isComplete(type)) return
    const bytes = OVERHEAD + type.length + id.length + (value === undefined ? 0 : heapBytes(value))
    if (bytes > this.limit / 4) {
      this.#incomplete(type)
      return
    }
    const entry: Entry = { type, id, value, bytes, older: this.#newest, newer: undefined }
    if (this.#newest) this.#newest.newer = entry
    this.#newest = entry
    this.#oldest ??= entry
    ids.set(id, entry)
    this.#bytes += bytes
    while (this.#bytes > this.limit && this.#oldest) {
      const oldest = this.#oldest
      if (oldest.value) this.#incomplete(oldest.type)
      this.#remove(oldest)
    }
  }

  /** Nothing is known any more. */
  drop(): void {
    this.generation++
    this.#types.clear()
    this.#oldest = this.#newest = undefined
    this.#bytes = 0
    this.#complete.clear()
    this.#allBut = undefined
  }

  #incomplete(type: string): void {
    this.#complete.delete(type)
    this.#allBut?.add(type)
  }

  #touch(entry: Entry): void {
    if (entry === this.#newest) return
    this.#unlink(entry)
    entry.older = this.#newest
    entry.newer = undefined
    if (this.#newest) this.#newest.newer = entry
    this.#newest = entry
    this.#oldest ??= entry
  }

  #remove(entry: Entry): void {
    this.#unlink(entry)
    this.#types.get(entry.type)?.delete(entry.id)
    this.#bytes -= entry.bytes
  }

  #unlink(entry: Entry): void {
    if (entry.older) entry.older.newer = entry.newer
    else if (this.#oldest === entry) this.#oldest = entry.newer
    if (entry.newer) entry.newer.older = entry.older
    else if (this.#newest === entry) this.#newest = entry.older
    entry.older = entry.newer = undefined
  }
}

/** A text that is not all ASCII takes two bytes a character. */
function heapBytes(value: Encoded): number {
  if (typeof value.value !== 'string' || value.value.length === value.size) return value.size
  return value.value.length * 2
}
