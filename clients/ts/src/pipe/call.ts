// One call on the pipe.

import type { PannierError } from '../errors.js'
import type { Reader } from '../stream/wire.js'

/** A kind of call. */
export interface Method<T> {
  /** The number of its field in PipeRequest, which is that of its answer in PipeResponse too. */
  readonly field: number
  /** For messages, such as "a claim". */
  readonly what: string
  /** It changes something. An answer that is lost leaves open whether it did. */
  readonly writes: boolean
  /** Reads the answer. */
  readonly decode: (answer: Reader) => T
}

/** A call until it is settled. Times are of performance.now(). */
export interface Call {
  readonly method: Method<unknown>
  /** The encoded request; the same bytes, and so the same request_id, each time it is sent. */
  readonly body: Buffer
  readonly timeoutMs: number
  readonly deadline: number
  readonly resolve: (value: unknown) => void
  readonly reject: (error: PannierError) => void
  /** On the present stream; 0: not on its way. */
  seq: number
  settled: boolean
  /** It was sent, and how that try ended is not known. */
  uncertain: boolean
  /** Failures that were tried again. */
  attempt: number
  /** Why the last try failed. */
  last: PannierError | undefined
}
