// Requests on a stream: their limits, what is kept of them, how their replies are put together.

import { makeError, type PannierError } from '../errors.js'
import type { CommittedAnswer, RecordsAnswer, StoredFragment, StoredRecord } from './answer-codec.js'
import type { CommitBody } from './commit-codec.js'
import type { Queued } from './commit-queue.js'

/** Failures of one try after which the same request is sent again. */
export const TRY_AGAIN: ReadonlySet<string> = new Set([
  'VALKEY_UNREACHABLE', 'STARTING', 'DRAINING', 'STORE_CHANGED', 'DEADLINE_EXCEEDED', 'BUSY', 'TOO_MANY_IN_FLIGHT', 'SIDECAR_UNREACHABLE',
  'VALKEY_REFUSES_WRITES',
])
/** The same, of reads and writes of an open session: also what the sidecar itself did not expect. */
export const REQUEST_AGAIN: ReadonlySet<string> = new Set([...TRY_AGAIN, 'INTERNAL'])
/** The same, when attaching again. */
export const ATTACH_AGAIN: ReadonlySet<string> = new Set([...TRY_AGAIN, 'VALKEY_OUT_OF_MEMORY', 'INTERNAL'])

/** Commits on their way at once. */
export const IN_FLIGHT = 64
/** What may wait for its turn. */
export const WAITING_BYTES = 128 * 1024 * 1024
export const WAITING = 10_000
/** Bytes of one commit. */
export const COMMIT_LIMIT = 32 * 1024 * 1024

/** How much longer than the sidecar's own deadline an answer may take. */
export const GRACE_MS = 1500
/** One try of a read. */
export const READ_TRY_MS = 5_000
/** One try of a commit. */
export const COMMIT_TRY_MS = 10_000
/** One try of attaching again. */
export const REATTACH_MS = 10_000

/** How long a try may take, of a request that ends at `deadline`. */
export function tryTime(deadline: number, most: number, now: number): number {
  return Math.max(1, Math.min(most, Math.ceil(deadline - now)))
}

/** What the holder is told. */
export interface SessionListener {
  /** The lease is gone, for good. Everything pending has been rejected. */
  onLost(error: PannierError): void
  /** Somebody else wrote: what was cached may be old. */
  onForeignWrite(): void
  /** The sidecar has not renewed the lease for so long that another owner may come soon. */
  onSuspend(): void
  /** The lease is renewed again after onSuspend. */
  onResume(): void
  /** A stream broke or a request failed, and it is tried again. */
  onRetry(error: PannierError, attempt: number): void
}

/** Commit or Clear. Times are of performance.now(). */
export interface WriteRequest extends Queued {
  /** On the present stream. */
  seq: number
  /** Then its caller is told. */
  deadline: number
  /** Then the stream counts as dead, if there was no answer. */
  answerBy: number
  readonly timeoutMs: number
  /** Absent: Clear. */
  readonly body: CommitBody | undefined
  readonly size: number
  readonly resolve: (result: CommittedAnswer) => void
  readonly cleared: ((result: ClearedResult) => void) | undefined
  readonly reject: (error: PannierError) => void
  /** Why the last try failed. */
  last: PannierError | undefined
}

/** What a Clear gives. */
export interface ClearedResult {
  fence: number
  incarnation: number
  revision: number
}

/** Puts the parts of a reply together. */
export class Gathered {
  readonly records: StoredRecord[] = []
  #whole: StoredRecord | undefined
  #filled = 0

  add(part: Pick<RecordsAnswer, 'records' | 'fragments'>): void {
    for (const record of part.records) this.records.push(record)
    for (const fragment of part.fragments) this.#fragment(fragment)
  }

  #fragment(part: StoredFragment): void {
    if (part.offset === 0) {
      const { type, id, kind, revision } = part
      this.#whole = { type, id, kind, revision, value: Buffer.allocUnsafe(part.total) }
      this.#filled = 0
    }
    const whole = this.#whole
    if (whole === undefined || part.offset !== this.#filled || part.type !== whole.type || part.id !== whole.id) {
      throw new RangeError('fragments out of order')
    }
    whole.value.set(part.value, part.offset)
    this.#filled += part.value.length
    if (this.#filled === whole.value.length) {
      this.records.push(whole)
      this.#whole = undefined
    }
  }
}

/** The sidecar goes. */
export function draining(): PannierError {
  return makeError({ code: 'UNAVAILABLE', reason: 'DRAINING', message: 'the sidecar is stopping' })
}

/** The store is behind what it acknowledged. */
export function staleWriter(): PannierError {
  return makeError({ code: 'FAILED_PRECONDITION', reason: 'STALE_STATE', message: 'the sidecar is behind what it acknowledged' })
}

/** It cannot be sent in one piece. */
export function commitTooLarge(size: number): PannierError {
  return makeError({ code: 'INVALID_ARGUMENT', reason: 'TOO_LARGE', message: `a commit may have ${COMMIT_LIMIT} bytes; this one has ${size}` })
}

/** More than one waits for. */
export function tooManyWaiting(): PannierError {
  return makeError({ code: 'RESOURCE_EXHAUSTED', reason: 'TOO_MANY_IN_FLIGHT', message: 'too many commits of this session are waiting' })
}

/** The same error, of a commit that may have been applied. */
export function unclear(error: PannierError): PannierError {
  const { code, reason, message, metadata } = error
  return makeError({ code, reason, message, metadata: { ...metadata, outcome_unknown: 'true' }, cause: error })
}
