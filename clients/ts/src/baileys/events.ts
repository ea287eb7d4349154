// What an auth state tells: to listeners, and to a log. Nothing goes silently: without a logger, warnings and errors go to the
// console.

import type { PannierError } from '../errors.js'

/** A logger such as pino. Ids, keys and values are never logged. */
export interface Logger {
  debug?(fields: object, message: string): void
  info?(fields: object, message: string): void
  warn(fields: object, message: string): void
  error(fields: object, message: string): void
}

/** What can be listened to, and what comes with it. */
export interface AuthStateEvents {
  /**
   * This state is of no more use: another owner took the session, it was deleted, an old copy of the database was put back, or
   * reads failed for 30 s. Close the socket; do not go on with what it has in memory.
   */
  fatal: (error: PannierError) => void
  /** The lease was not renewed for nearly its length: another owner may come. Stop sending until `resume`. */
  suspend: () => void
  /** The lease is renewed again. */
  resume: () => void
  /** A commit is in. */
  commit: (commit: { revision: number; records: number; bytes: number; ms: number }) => void
  /** Somebody else wrote to this session; the cache was dropped. */
  conflict: () => void
  /** Something failed and is tried again. `attempt` 0: the stream broke. */
  retry: (retry: { error: PannierError; attempt: number }) => void
  /** Another owner holds the session, and it is waited for. */
  held: (holder: { owner: string | undefined; until: Date | undefined }) => void
  /**
   * `stored: false`: a call came after clear() or close(), and was rejected; something still uses this state (the one event that
   * also comes after its close). `stored: true`: values were added to what `set` was given while it was under way, as Baileys 6.7.24 does; they are stored too.
   */
  late: (late: { call: string; stored: boolean }) => void
}

/** Writes a line of log. */
export type LogLine = (level: keyof Required<Logger>, message: string, fields?: object) => void

/** Listeners of one auth state. An error thrown by one is logged and reaches nobody else. */
export class Listeners {
  readonly #all = new Map<keyof AuthStateEvents, Set<{ call: (...args: never[]) => void }>>()

  constructor(private readonly log: LogLine) {}

  on<Name extends keyof AuthStateEvents>(name: Name, listener: AuthStateEvents[Name]): () => void {
    if (!NAMES.has(name)) throw new TypeError(`there is no event "${name}"; there are ${[...NAMES].join(', ')}`)
    const listeners = this.#all.get(name) ?? new Set()
    this.#all.set(name, listeners)
    const one = { call: listener }
    listeners.add(one)
    return () => listeners.delete(one)
  }

  has(name: keyof AuthStateEvents): boolean {
    return (this.#all.get(name)?.size ?? 0) > 0
  }

  emit<Name extends keyof AuthStateEvents>(name: Name, ...args: Parameters<AuthStateEvents[Name]>): void {
    for (const { call } of [...(this.#all.get(name) ?? [])]) {
      try {
        ;(call as (...args: Parameters<AuthStateEvents[Name]>) => void)(...args)
      } catch (error) {
        this.log('error', `a listener of "${name}" threw`, { error })
      }
    }
  }
}

/** What a session tells: to its log, and to the listeners of every auth state of it that is open. */
export class Events {
  readonly #audience = new Set<Listeners>()

  constructor(
    private readonly logger: Logger | undefined,
    private readonly fields: object,
  ) {}

  /** Listeners of another auth state. */
  join(): Listeners {
    const listeners = new Listeners(this.log)
    this.#audience.add(listeners)
    return listeners
  }

  /** It is closed: nothing more is told to them. */
  leave(listeners: Listeners): void {
    this.#audience.delete(listeners)
  }

  /** Whether anybody listens. */
  has(name: keyof AuthStateEvents): boolean {
    for (const listeners of this.#audience) if (listeners.has(name)) return true
    return false
  }

  emit<Name extends keyof AuthStateEvents>(name: Name, ...args: Parameters<AuthStateEvents[Name]>): void {
    for (const listeners of [...this.#audience]) listeners.emit(name, ...args)
  }

  readonly log: LogLine = (level, message, fields = {}) => {
    const all = { ...this.fields, ...fields }
    if (this.logger) this.logger[level]?.(all, `pannier: ${message}`)
    // eslint-disable-next-line no-console
    else if (level === 'warn' || level === 'error') console[level](`pannier: ${message}`, all)
  }
}

const NAMES = new Set<keyof AuthStateEvents>(['fatal', 'suspend', 'resume', 'commit', 'conflict', 'retry', 'held', 'late'])
