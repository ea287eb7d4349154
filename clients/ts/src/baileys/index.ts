/**
 * An auth state for Baileys (7.0.0-rc14 and 6.7.24) over Pannier.
 * @packageDocumentation
 */

import type { AuthenticationCreds, SignalDataSet, SignalDataTypeMap, SignalKeyStore } from 'baileys'
import { milliseconds, checkKnown, type Duration } from '../options.js'
import { Pannier } from '../pannier.js'
import { atMost } from '../waiting.js'
import type { AuthStateEvents } from './events.js'
import type { Life } from './handle.js'
import { KeyStore } from './keys.js'
import { borrow } from './registry.js'
import { settingsOf, type AuthStateOptions } from './settings.js'

export type { AuthStateEvents, Logger } from './events.js'
export type { BaileysLibrary } from './library.js'
export type { AuthStateOptions } from './settings.js'

/** Baileys' SignalKeyStore, with promises throughout. */
export interface PannierKeyStore extends SignalKeyStore {
  /** The values of the ids that exist, each a fresh object; missing ones are left out. Rejects rather than leave out one it could not read. */
  get<Type extends keyof SignalDataTypeMap>(type: Type, ids: string[]): Promise<{ [id: string]: SignalDataTypeMap[Type] }>
  /** Stores all of it, or nothing; a falsy value deletes. In call order; ≤ 16 MiB a value, ≤ 32 MiB in all. */
  set(data: SignalDataSet): Promise<void>
  /** The same as `clear` of the auth state. */
  clear(): Promise<void>
}

/** What `usePannierAuthState` gives. */
export interface PannierAuthState extends AsyncDisposable {
  /** For `makeWASocket({ auth: state })`. Wrap `keys` in no other cache: it has one that is right while the lease holds. */
  state: { creds: AuthenticationCreds; keys: PannierKeyStore }
  /**
   * Stores `state.creds` as it is now; for `sock.ev.on('creds.update', saveCreds)`. Many calls become few commits, the newest wins,
   * and order with `keys.set` is kept. Need not be awaited: a failure is logged, tried again, and never unhandled.
   */
  saveCreds(): Promise<void>
  /** Waits until every saved creds is stored. Rejects if they are not. */
  flush(): Promise<void>
  /**
   * Soft-deletes the session, all types, for 7 days; the lease stays. Every state handed out before rejects with FencedError from
   * then on; the next `usePannierAuthState` gives a new, empty one. Idempotent. Of a state that is closed, or has lost its session,
   * it rejects and clears nothing.
   */
  clear(): Promise<void>
  /**
   * For a closed connection: clears if `reason` says that the account was logged out (status 401), else does nothing. Takes
   * `lastDisconnect.error`, or a status code. True if it cleared; rejects like `clear`: call it before `close`.
   */
  onLoggedOut(reason: unknown): Promise<boolean>
  /** Ids of all records of a type, also of unknown ones. */
  listIds(type: string): Promise<string[]>
  /** All records of a type, by id. */
  list<Type extends keyof SignalDataTypeMap>(type: Type): Promise<Record<string, SignalDataTypeMap[Type]>>
  /** Listens, until `close` or a call of what it returns. No event needs to be listened to, but a bot should close its socket at `fatal`. */
  on<Name extends keyof AuthStateEvents>(name: Name, listener: AuthStateEvents[Name]): () => void
  /** True between `suspend` and `resume`: do not send. */
  readonly suspended: boolean
  /** The highest revision acknowledged: keep a note of it for `minRevision`. */
  readonly revision: number
  /** Who holds the lease. */
  readonly owner: string
  /** Flushes and gives the handle back; the last one releases the lease. Always ends, within `timeout` (default 5 s). */
  close(options?: { timeout?: Duration }): Promise<void>
}

/**
 * Opens a session for Baileys and takes its lease. A session that is open in this process already (the usual way to reconnect) is
 * shared: same creds, same keys.
 *
 * Fresh credentials come only when there is certainly no session; any failure rejects instead.
 * @param session The session's name: 1..512 bytes, any characters.
 * @throws SessionHeldError, StaleStateError, CorruptRecordError, KeyMismatchError, UnavailableError; TypeError for wrong options.
 */
export async function usePannierAuthState(pannier: Pannier, session: string, options: AuthStateOptions = {}): Promise<PannierAuthState> {
  if (!(pannier instanceof Pannier)) throw new TypeError('usePannierAuthState: the first argument is what connect() gives')
  if (typeof session !== 'string' || session === '' || Buffer.byteLength(session) > 512) {
    throw new TypeError('usePannierAuthState: session must be a text of 1..512 bytes')
  }
  const settings = settingsOf(options)
  const loan = await borrow(pannier, session, settings)
  const { handle } = loan
  let life: Life
  try {
    life = await handle.life()
  } catch (error) {
    await loan.giveBack(1000)
    throw error
  }
  const { creds, saver } = life
  const listeners = handle.events.join()
  const keys = new KeyStore(handle, life, listeners)
  loan.onBack = () => {
    keys.close()
    handle.events.leave(listeners)
  }
  const clear = (): Promise<void> => keys.rejectedIfClosed('clear') ?? handle.clear(life)
  const close = async (how: { timeout?: Duration } = {}): Promise<void> => {
    checkKnown('close', how, ['timeout'])
    const deadline = performance.now() + milliseconds('close: timeout', how.timeout, 5000)
    await atMost(deadline - performance.now(), saver.flush().catch(() => {}))
    await loan.giveBack(Math.max(0, deadline - performance.now()))
  }
  return {
    state: {
      creds,
      keys: {
        get: (type, ids) => keys.get(type, ids) as Promise<{ [id: string]: SignalDataTypeMap[typeof type] }>,
        set: (data: SignalDataSet) => keys.set(data),
        clear,
      },
    },
    saveCreds: () => keys.rejected('saveCreds') ?? saver.save(),
    flush: () => keys.rejected('flush') ?? saver.flush(),
    clear,
    onLoggedOut: async reason => {
      if (!isLoggedOut(reason)) return false
      await clear()
      return true
    },
    listIds: type => keys.listIds(type),
    list: type => keys.list(type) as Promise<Record<string, SignalDataTypeMap[typeof type]>>,
    on: (name, listener) => listeners.on(name, listener),
    get suspended() {
      return handle.stream.suspended
    },
    get revision() {
      return handle.stream.revision
    },
    owner: settings.owner,
    close,
    [Symbol.asyncDispose]: () => close(),
  }
}

/** Baileys' `DisconnectReason.loggedOut`, bare or in the error it comes in. */
function isLoggedOut(reason: unknown): boolean {
  const { output } = (reason ?? {}) as { output?: { statusCode?: unknown } }
  return reason === 401 || output?.statusCode === 401
}
