// A job in the hands of a handler.

import { tooLarge } from '../errors.js'
import { LONGEST_MS } from '../limits.js'
import type { Duration } from '../options.js'
import { wait } from '../schedule/spec.js'
import { decodePresent, encodePresent, type Value } from '../value.js'
import { FAIL, RELEASE, RETRY, type LeaseName, type Settle, type WireJob } from './codec.js'

/** A job that this worker has: nobody else does, until it ends or its lease is lost. */
export class Job<Payload = Value> {
  readonly queue: string
  readonly id: string
  /** In its queue: rising, never used twice. */
  readonly number: number
  /** Of this attempt: rises with each. For stores that can refuse an older one. */
  readonly fence: number
  /** From 1. */
  readonly attempt: number
  readonly maxAttempts: number
  /** What it was enqueued with. */
  readonly payload: Payload
  readonly group: string | undefined
  readonly priority: number
  /** When it was due, when this attempt began, when it was accepted: by the server's clock. */
  readonly dueAt: Date
  readonly leasedAt: Date
  readonly createdAt: Date
  /** The last progress of an earlier attempt. */
  readonly lastProgress: Value | undefined
  readonly #progress: (value: string | Buffer) => void

  /** @internal */
  constructor(wire: WireJob, progress: (value: string | Buffer) => void) {
    this.queue = wire.queue
    this.id = wire.id
    this.number = wire.number
    this.fence = wire.fence
    this.attempt = wire.attempt
    this.maxAttempts = wire.maxAttempts
    this.payload = decodePresent(wire.payload) as Payload
    this.group = wire.group || undefined
    this.priority = wire.priority
    this.dueAt = new Date(wire.dueMs)
    this.leasedAt = new Date(wire.leasedMs)
    this.createdAt = new Date(wire.createdMs)
    this.lastProgress = decodePresent(wire.progress)
    this.#progress = progress
  }

  /**
   * Says how far it is: a text, bytes or JSON, ≤ 1 KiB; the newest replaces the one before. It goes with what is sent next, and is kept
   * with the job: `schedule.get` and the next attempt see it. @throws TooLargeError, BadRequestError
   */
  progress(value: Value): void {
    const bytes = encodePresent('progress', value)
    if (Buffer.byteLength(bytes) > PROGRESS_MAX) throw tooLarge('progress', `must be at most ${PROGRESS_MAX} bytes`)
    this.#progress(bytes)
  }
}

/** Beside the job. */
export class JobContext {
  readonly #lease: Lease

  /** @internal */
  constructor(lease: Lease) {
    this.#lease = lease
  }

  /**
   * Aborts when what the handler does is not wanted any more: somebody cancelled the job (reason: JobCancelledError), the lease is lost and
   * another worker may have it (FencedError), or `close` runs out of time (ClosedError; the job goes back and counts no attempt).
   */
  get signal(): AbortSignal {
    return this.#lease.signal
  }
}

/** What a handler does with a job. */
export type Handler<Payload = Value, Result = unknown> = (job: Job<Payload>, context: JobContext) => Result | Promise<Result>

/** Thrown by a handler: give the job up at once, whatever attempts are left. It is dead then. */
export class FailJob extends Error {
  override readonly name = 'FailJob'
}

/** Thrown by a handler: the attempt failed; the next one begins after `after` rather than after the wait of the retry policy. */
export class RetryJob extends Error {
  override readonly name = 'RetryJob'
  readonly afterMs: number
  /** `after`: 0..400 days. */
  constructor(after: Duration, message = 'to be tried again', options?: ErrorOptions) {
    super(message, options)
    this.afterMs = wait('after', after, LONGEST_MS)
  }
}

/** Thrown by a handler: not now. The job goes back, at once or for so long, as if it had not been started: it counts no attempt. */
export class ReleaseJob extends Error {
  override readonly name = 'ReleaseJob'
  readonly afterMs: number
  /** `after`: 0..400 days, default at once. */
  constructor(after: Duration = 0, message = 'not now', options?: ErrorOptions) {
    super(message, options)
    this.afterMs = wait('after', after, LONGEST_MS)
  }
}

/** Why a signal aborted: somebody cancelled the job. If its handler throws then, the job ends as cancelled. */
export class JobCancelledError extends Error {
  override readonly name = 'JobCancelledError'
}

const PROGRESS_MAX = 1024
const ERROR_MAX = 4096
const RESULT_MAX = 64 * 1024

/** @internal A lease, from the job's arrival to the sidecar's word that it has ended. Times are of performance.now(). */
export class Lease implements LeaseName {
  readonly queue: string
  readonly number: number
  readonly fence: number
  readonly delivery: number
  readonly job: Job<unknown>
  /** Until then the sidecar surely counts it as ours. */
  heldUntil: number
  /** Its handler was called. */
  begun = false
  /** It is not ours any more, or may not be. */
  lost = false
  cancelled = false
  /** Not sent yet. */
  newProgress: string | Buffer | undefined
  settle: Settle | undefined
  /** What the handler gave or threw. */
  ending: unknown
  refusals = 0
  #aborter: AbortController | undefined
  #reason: Error | undefined

  constructor(wire: WireJob, readonly arrivedAt: number, leaseMs: number, progress: (lease: Lease) => void) {
    this.queue = wire.queue
    this.number = wire.number
    this.fence = wire.fence
    this.delivery = wire.delivery
    this.heldUntil = arrivedAt + leaseMs
    this.job = new Job<unknown>(wire, value => {
      if (this.settle || this.lost) return
      this.newProgress = value
      progress(this)
    })
  }

  /** Made when a handler asks for it: most never do. */
  get signal(): AbortSignal {
    if (this.#aborter === undefined) {
      this.#aborter = new AbortController()
      if (this.#reason) this.#aborter.abort(this.#reason)
    }
    return this.#aborter.signal
  }

  get aborted(): boolean {
    return this.#reason !== undefined
  }

  abort(reason: Error): void {
    if (this.#reason) return
    this.#reason = reason
    this.#aborter?.abort(reason)
  }
}

/** How a handler's end settles its job. `released`: because the worker is closing. */
export function settleOf(error: unknown, released: boolean): Settle {
  const value = errorText(error)
  if (error instanceof ReleaseJob) return { verdict: RELEASE, value, retryAfterMs: error.afterMs }
  if (error instanceof FailJob) return { verdict: FAIL, value, retryAfterMs: undefined }
  if (error instanceof RetryJob) return { verdict: RETRY, value, retryAfterMs: error.afterMs }
  return { verdict: released ? RELEASE : RETRY, value, retryAfterMs: undefined }
}

/** The bytes of a result. @throws TooLargeError, BadRequestError */
export function encodeResult(value: unknown): string | Buffer {
  if (value === undefined) return ''
  const bytes = encodePresent('result', value)
  const length = Buffer.byteLength(bytes)
  if (length > RESULT_MAX) throw tooLarge('result', `must be at most 64 KiB; it has ${length} bytes`)
  return bytes
}

/** What is kept of an error: its stack, as far as there is room. */
function errorText(error: unknown): string {
  let text: string
  try {
    text = error instanceof Error ? (error.stack ?? String(error)) : `thrown: ${String(error)}`
  } catch {
    text = 'thrown: something that has no text'
  }
  const bytes = Buffer.from(text)
  if (bytes.length <= ERROR_MAX) return bytes.toString()
  // Not in the middle of a character.
  let end = ERROR_MAX
  while (end > 0 && ((bytes[end] ?? 0) & 0xc0) === 0x80) end--
  return bytes.toString('utf8', 0, end)
}
