// A key store in memory for simulated phones and contacts. It keeps BufferJSON text, so a reader can change what it got
// without changing what is stored, as with any real store.
import { type AuthenticationState, BufferJSON, initAuthCreds, type SignalDataSet, type SignalDataTypeMap } from 'baileys'

export function memoryAuthState(): AuthenticationState {
  const records = new Map<string, string>()
  return {
    creds: initAuthCreds(),
    keys: {
      get<T extends keyof SignalDataTypeMap>(type: T, ids: string[]) {
        const found: { [id: string]: SignalDataTypeMap[T] } = {}
        for (const id of ids) {
          const text = records.get(`${type}/${id}`)
          if (text !== undefined) found[id] = JSON.parse(text, BufferJSON.reviver) as SignalDataTypeMap[T]
        }
        return found
      },
      set(data: SignalDataSet) {
        for (const [type, values] of Object.entries(data)) {
          for (const [id, value] of Object.entries(values)) {
            if (value) records.set(`${type}/${id}`, JSON.stringify(value, BufferJSON.replacer))
            else records.delete(`${type}/${id}`)
          }
        }
      },
    },
  }
}
