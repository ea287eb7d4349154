// What no store can do without: the BufferJSON text of what is written, and a fresh object for each read. Keeps it in this
// process's memory, so what remains of another store's time is its own.
import { type AuthenticationCreds, BufferJSON, initAuthCreds, type SignalDataSet, type SignalDataTypeMap, type SignalKeyStore } from 'baileys'
import type { Setup } from './store.js'

export const memory: Setup = async () => {
  const texts = new Map<string, string>()
  const keys: SignalKeyStore = {
    async get<T extends keyof SignalDataTypeMap>(type: T, ids: string[]) {
      const found: { [id: string]: SignalDataTypeMap[T] } = {}
      for (const id of ids) {
        const text = texts.get(`${type}:${id}`)
        if (text !== undefined) found[id] = JSON.parse(text, BufferJSON.reviver)
      }
      return found
    },
    async set(data: SignalDataSet) {
      for (const [type, values] of Object.entries(data)) {
        for (const [id, value] of Object.entries(values)) {
          if (value) texts.set(`${type}:${id}`, JSON.stringify(value, BufferJSON.replacer))
          else texts.delete(`${type}:${id}`)
        }
      }
    },
  }
  return {
    name: 'JSON only, nothing stored',
    encrypted: false,
    keptIn: 'memory',
    processes: () => [],
    async open() {
      const creds: AuthenticationCreds = initAuthCreds()
      return {
        state: { creds, keys },
        async saveCreds() {
          texts.set('creds', JSON.stringify(creds, BufferJSON.replacer))
        },
        flush: async () => undefined,
        close: async () => undefined,
      }
    },
    stop: async () => undefined,
  }
}
