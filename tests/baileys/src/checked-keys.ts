// A key store that remembers what was written through it and checks every read: a value must be one that was current at
// some moment of that read. What this records outlives the store, so it also holds a re-opened store to its word.
import { BufferJSON, type SignalDataSet, type SignalDataTypeMap, type SignalKeyStore } from 'baileys'

interface Write {
  /** BufferJSON text; undefined for a delete. */
  text: string | undefined
  acknowledged: boolean
}

export class StoreRecord {
  readonly #writes = new Map<string, Write[]>()
  /** Sets under way: each notes what is new in the object that it was given, for 6.7.24 goes on adding to it. */
  readonly #underWay = new Set<() => void>()

  /** How many records the store must hold now. */
  get size(): number {
    return [...this.#writes.values()].filter(writes => writes.at(-1)?.text !== undefined).length
  }

  /** Ids of a type that the store must hold now. */
  ids(type: string): string[] {
    return [...this.#writes].filter(([key, writes]) => key.startsWith(`${type}\0`) && writes.at(-1)?.text !== undefined)
      .map(([key]) => key.slice(type.length + 1))
  }

  begin(data: SignalDataSet): () => void {
    const begun: [Write[], Write][] = []
    const noted = new Map<string, string>()
    const note = () => {
      for (const [type, values] of Object.entries(data)) {
        for (const [id, value] of Object.entries(values)) {
          const write = { text: value ? text(value) : undefined, acknowledged: false }
          if (noted.get(`${type}\0${id}`) === (write.text ?? '')) continue
          noted.set(`${type}\0${id}`, write.text ?? '')
          const writes = this.#of(type, id)
          writes.push(write)
          begun.push([writes, write])
        }
      }
    }
    note()
    this.#underWay.add(note)
    return () => {
      note()
      this.#underWay.delete(note)
      for (const [writes, write] of begun) {
        write.acknowledged = true
        writes.splice(0, writes.indexOf(write))
      }
    }
  }

  /** Call before the read; the result takes what was read. */
  expect(type: string, ids: string[]): (found: { [id: string]: unknown }) => void {
    this.#noteAdded()
    const before = ids.map(id => {
      const writes = this.#of(type, id)
      const settled = writes.findLast(({ acknowledged }) => acknowledged)
      return { id, writes, possible: new Set(settled ? writes.slice(writes.indexOf(settled)) : writes), fresh: !settled }
    })
    return found => {
      this.#noteAdded()
      for (const { id, writes, possible, fresh } of before) {
        const value = found[id] ? text(found[id]) : undefined
        for (const write of writes) possible.add(write)
        const allowed = [...possible].some(write => write.text === value) || (fresh && value === undefined)
        if (!allowed) throw new Error(`${type} ${id}: read ${describe(value)}, but ${describe(writes.at(-1)?.text)} was written`)
      }
      for (const id of Object.keys(found)) if (!ids.includes(id)) throw new Error(`${type} ${id} was not asked for`)
    }
  }

  #noteAdded(): void {
    for (const note of this.#underWay) note()
  }

  #of(type: string, id: string): Write[] {
    const key = `${type}\0${id}`
    const writes = this.#writes.get(key) ?? []
    this.#writes.set(key, writes)
    return writes
  }
}

const text = (value: unknown): string => JSON.stringify(value, BufferJSON.replacer)
const describe = (value: string | undefined): string => (value === undefined ? 'nothing' : `${value.length} bytes`)

export function checkedKeys(keys: SignalKeyStore, record: StoreRecord): SignalKeyStore {
  return {
    async get<T extends keyof SignalDataTypeMap>(type: T, ids: string[]) {
      const check = record.expect(type, ids)
      const found = await keys.get(type, ids)
      check(found)
      return found
    },
    async set(data: SignalDataSet) {
      const acknowledge = record.begin(data)
      await keys.set(data)
      acknowledge()
    },
  }
}
