// What a store must offer to take part in the comparison.
import type { AuthStore } from '../../src/bot.js'
import type { Valkey } from '../../src/valkey.js'

export interface OpenStore extends AuthStore {
  /** Resolves once everything saved so far is stored. */
  flush(): Promise<void>
  close(): Promise<void>
}

export interface Contender {
  readonly name: string
  readonly encrypted: boolean
  /** Where it is kept: decides which of the measurements apply. */
  readonly keptIn: 'valkey' | 'files' | 'memory'
  /** Processes between the bot and Valkey. */
  processes(): { name: string; pid: number }[]
  /** Opens an empty session of that name. */
  open(session: string): Promise<OpenStore>
  stop(): Promise<void>
}

/** Sets a contender up on a Valkey; undefined when it cannot run here. */
export type Setup = (valkey: Valkey) => Promise<Contender | undefined>
