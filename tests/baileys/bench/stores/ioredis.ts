// The store that a careful user writes by hand: one hash per session, BufferJSON text, every get one HMGET, every set one
// round trip and atomic: a MULTI always, or only where one HSET does not do. Alone, and behind the cache that Baileys offers
// for such stores.
import {
  type AuthenticationCreds,
  BufferJSON,
  initAuthCreds,
  makeCacheableSignalKeyStore,
  proto,
  type SignalDataSet,
  type SignalDataTypeMap,
  type SignalKeyStore,
} from 'baileys'
import type { Redis } from 'ioredis'
import type { Contender, Setup } from './store.js'

const field = (type: string, id: string): string => `${type}:${id}`

type When = 'always' | 'when needed'

function keysIn(redis: Redis, session: string, multi: When): SignalKeyStore {
  return {
    async get<T extends keyof SignalDataTypeMap>(type: T, ids: string[]) {
      const found: { [id: string]: SignalDataTypeMap[T] } = {}
      if (!ids.length) return found
      const texts = await redis.hmget(session, ...ids.map(id => field(type, id)))
      ids.forEach((id, n) => {
        const text = texts[n]
        if (text === null || text === undefined) return
        const value = JSON.parse(text, BufferJSON.reviver)
        found[id] = type === 'app-state-sync-key' ? proto.Message.AppStateSyncKeyData.fromObject(value) : value
      })
      return found
    },
    async set(data: SignalDataSet) {
      const stored: string[] = []
      const deleted: string[] = []
      for (const [type, values] of Object.entries(data)) {
        for (const [id, value] of Object.entries(values)) {
          if (value) stored.push(field(type, id), JSON.stringify(value, BufferJSON.replacer))
          else deleted.push(field(type, id))
        }
      }
      if (multi === 'when needed' && !deleted.length) {
        if (stored.length) await redis.hset(session, ...stored)
        return
      }
      const transaction = redis.multi()
      if (stored.length) transaction.hset(session, ...stored)
      if (deleted.length) transaction.hdel(session, ...deleted)
      const replies = await transaction.exec()
      for (const [error] of replies ?? []) if (error) throw error
    },
  }
}

const contender = (name: string, multi: When, around = (keys: SignalKeyStore) => keys): Setup => async valkey => {
  const redis = valkey.client()
  const made: Contender = {
    name,
    encrypted: false,
    keptIn: 'valkey',
    processes: () => [],
    async open(session) {
      const stored = await redis.hget(session, 'creds')
      const creds: AuthenticationCreds = stored ? JSON.parse(stored, BufferJSON.reviver) : initAuthCreds()
      return {
        state: { creds, keys: around(keysIn(redis, session, multi)) },
        async saveCreds() {
          await redis.hset(session, 'creds', JSON.stringify(creds, BufferJSON.replacer))
        },
        flush: async () => undefined,
        close: async () => undefined,
      }
    },
    async stop() {
      redis.disconnect()
    },
  }
  return made
}

const cached = (keys: SignalKeyStore): SignalKeyStore => makeCacheableSignalKeyStore(keys)

export const multi = contender('ioredis, MULTI', 'always')
export const multiCached = contender('ioredis, MULTI + cache', 'always', cached)
export const hset = contender('ioredis, HSET', 'when needed')
export const hsetCached = contender('ioredis, HSET + cache', 'when needed', cached)
