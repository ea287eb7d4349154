// The lease of the session that has an archive's name: while it is held, nobody else changes the archive, and nobody else who asks for
// the lease starts a browser with the same account.

import { randomUUID } from 'node:crypto'
import type { PannierError } from '../errors.js'
import { OnHeld } from '../gen/pannier/v1/session.js'
import type { Pannier } from '../pannier.js'
import { SessionStream } from '../stream/session-stream.js'

/** When another owner holds it: wait until its lease has run out, fail with SessionHeldError, or take it. */
export type OnHeldName = 'wait' | 'fail' | 'takeOver'

const ON_HELD = { wait: OnHeld.ON_HELD_WAIT, fail: OnHeld.ON_HELD_FAIL, takeOver: OnHeld.ON_HELD_TAKE_OVER } as const
const LEASE_TTL_MS = 30_000
/** Longer than a killed owner's lease. */
const WAIT_MS = LEASE_TTL_MS + 15_000
const OPEN_MS = 30_000
/** Of this process, so that a client which starts again in it gets its lease at once. */
const PROCESS = randomUUID()

/** See the top of this file. */
export class SessionLease {
  readonly #stream: SessionStream
  readonly #disown: () => void

  private constructor(pannier: Pannier, session: string, owner: string, onLost: (error: PannierError) => void) {
    const request = {
      namespace: pannier.namespace, session, owner, writerId: randomUUID(), onHeld: OnHeld.ON_HELD_FAIL, waitMs: WAIT_MS, leaseTtlMs: LEASE_TTL_MS,
      minRevision: 0, mustExist: false, resume: undefined, preloadTypes: [],
    }
    this.#stream = new SessionStream(pannier.connection, request, { onLost, onForeignWrite() {}, onSuspend() {}, onResume() {}, onRetry() {} })
    this.#disown = pannier.adopt({ close: ms => this.release(ms) })
  }

  /** Takes it. @throws SessionHeldError, UnavailableError */
  static async take(pannier: Pannier, session: string, onHeld: OnHeldName, owner: string | undefined, onLost: (error: PannierError) => void): Promise<SessionLease> {
    const lease = new SessionLease(pannier, session, owner ?? PROCESS, onLost)
    try {
      await lease.#stream.open(ON_HELD[onHeld], OPEN_MS)
      return lease
    } catch (error) {
      lease.#disown()
      lease.#stream.abort()
      throw error
    }
  }

  /** The present one: it changes when the stream had to be attached again. */
  get fence(): number {
    return this.#stream.fence
  }

  /** Lets go of it. Never rejects. */
  async release(timeoutMs = 5000): Promise<void> {
    this.#disown()
    await this.#stream.close(timeoutMs).catch(() => {})
  }
}
