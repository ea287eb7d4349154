// Pannier's TypeScript client, taken from `clients/ts` of this repository as its users get it: compiled.
import { existsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import type { AuthStore } from './bot.js'

export interface PannierAuthStore extends AuthStore {
  flush(): Promise<void>
  clear(): Promise<void>
  close(): Promise<void>
}

export interface PannierConnection {
  close(): Promise<void>
}

export interface PannierClient {
  connect(options: { address: string; readyTimeout?: string }): Promise<PannierConnection>
  usePannierAuthState(pannier: PannierConnection, session: string, options: object): Promise<PannierAuthStore>
}

/** undefined when the client is not built. */
export async function loadClient(): Promise<PannierClient | undefined> {
  const dist = ['../../../clients/ts/dist/', '../../../../clients/ts/dist/']
    .map(path => new URL(path, import.meta.url))
    .find(folder => existsSync(fileURLToPath(new URL('baileys/index.js', folder))))
  if (!dist) return undefined
  const { connect } = await import(new URL('index.js', dist).href) as Pick<PannierClient, 'connect'>
  const { usePannierAuthState } = await import(new URL('baileys/index.js', dist).href) as Pick<PannierClient, 'usePannierAuthState'>
  return { connect, usePannierAuthState }
}
