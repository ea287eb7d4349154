// Options of usePannierAuthState.

import { randomUUID } from 'node:crypto'
import { checkKnown, milliseconds, type Duration } from '../options.js'
import type { Logger } from './events.js'
import type { BaileysLibrary } from './library.js'

/** Options of usePannierAuthState. Everything is optional. */
export interface AuthStateOptions {
  /** When another owner holds the session: wait for it (default), fail with SessionHeldError, or take it over. */
  onHeld?: 'wait' | 'fail' | 'takeOver'
  /** How long `wait` waits. Default: `leaseTtl` + 15 s: then a crashed owner's lease has run out. At most 10 minutes. */
  waitTimeout?: Duration
  /** Who holds the lease; 1..512 bytes. Default: a UUID of this process. The same owner gets its session at once. */
  owner?: string
  /** How long the lease outlives a broken connection, be it one that says nothing for 50 s; 3 s … 10 minutes. Default 30 s. */
  leaseTtl?: Duration
  /**
   * A revision that was acknowledged earlier, of which you kept a note (`revision`, or the event `commit`): a stored session behind
   * it is StaleStateError. What was acknowledged in this process is known anyway, of the 10 000 sessions opened last; a new process
   * knows nothing.
   */
  minRevision?: number
  /** How long the sidecar may be away while opening. Default 30 s. */
  openTimeout?: Duration
  /** Bytes of memory for cached records of this session. Default 32 MiB. */
  cacheBytes?: number
  /**
   * Types to load at once when opening, ≤ 16, so that reading them needs no round trip; the first 32 MiB of them. Default: all
   * types Baileys has. `[]`: none.
   */
  preload?: readonly string[]
  /** Default: warnings and errors go to the console. */
  logger?: Logger
  /**
   * Baileys itself, as `import * as baileys from 'baileys'` gives it. Default: the copy beside this package; where this package is a
   * link, the copy of the program that runs, then that of the working directory.
   */
  baileys?: BaileysLibrary
}

/** The same, complete. */
export interface Settings {
  onHeld: 'wait' | 'fail' | 'takeOver'
  waitMs: number
  owner: string
  leaseTtlMs: number
  minRevision: number
  openMs: number
  cacheBytes: number
  preload: readonly string[]
  logger: Logger | undefined
  baileys: BaileysLibrary | undefined
}

const KNOWN = ['onHeld', 'waitTimeout', 'owner', 'leaseTtl', 'minRevision', 'openTimeout', 'cacheBytes', 'preload', 'logger', 'baileys'] as const
const WHERE = 'usePannierAuthState'

/** The record types of Baileys; what is small and always needed first. */
export const TYPES: readonly string[] = [
  'app-state-sync-key', 'app-state-sync-version', 'lid-mapping', 'device-list', 'tctoken', 'identity-key', 'sender-key-memory',
  'pre-key', 'sender-key', 'session',
]

/** This process, unless `owner` says otherwise. */
const PROCESS_OWNER = randomUUID()

/** Checks them. @throws TypeError */
export function settingsOf(options: AuthStateOptions): Settings {
  checkKnown(WHERE, options, KNOWN)
  const { onHeld = 'wait', owner = PROCESS_OWNER, minRevision = 0, cacheBytes = 32 * 1024 * 1024, preload = TYPES, logger, baileys } = options
  if (!['wait', 'fail', 'takeOver'].includes(onHeld)) throw new TypeError(`${WHERE}: onHeld must be 'wait', 'fail' or 'takeOver'`)
  if (typeof owner !== 'string' || owner === '' || Buffer.byteLength(owner) > 512) throw new TypeError(`${WHERE}: owner must be a text of 1..512 bytes`)
  if (!Number.isSafeInteger(minRevision) || minRevision < 0) throw new TypeError(`${WHERE}: minRevision must be an integer ≥ 0`)
  if (!Number.isSafeInteger(cacheBytes) || cacheBytes < 0) throw new TypeError(`${WHERE}: cacheBytes must be an integer ≥ 0`)
  if (!Array.isArray(preload) || preload.length > 15) throw new TypeError(`${WHERE}: preload must be an array of at most 15 types`)
  const leaseTtlMs = milliseconds(`${WHERE}: leaseTtl`, options.leaseTtl, 30_000)
  if (leaseTtlMs < 3000 || leaseTtlMs > 600_000) throw new TypeError(`${WHERE}: leaseTtl must be 3 s … 10 minutes`)
  const waitMs = milliseconds(`${WHERE}: waitTimeout`, options.waitTimeout, Math.min(600_000, leaseTtlMs + 15_000))
  if (waitMs > 600_000) throw new TypeError(`${WHERE}: waitTimeout must be at most 10 minutes`)
  const openMs = milliseconds(`${WHERE}: openTimeout`, options.openTimeout, 30_000)
  return { onHeld, waitMs, owner, leaseTtlMs, minRevision, openMs, cacheBytes, preload, logger, baileys }
}
