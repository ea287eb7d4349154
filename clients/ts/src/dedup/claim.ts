// What a claim gave, as the application sees it.

import { present } from '../pipe/answers.js'
import type { Pipe } from '../pipe/pipe.js'
import { span, WORK_MS } from '../limits.js'
import { checkKnown, type Duration } from '../options.js'
import { decodePresent, type Value } from '../value.js'
import { COMPLETE, encodeComplete, encodeExtend, encodeRelease, EXTEND, RELEASE, type ClaimAnswer } from './codec.js'

/** The key is yours: do the work, then `complete()`; or `release()` if it failed and is to be tried again. */
export class Claim {
  /** Tells it from the other results without a look at `outcome`. */
  readonly claimed = true
  /** `takeover`: an earlier claimer's time ran out; its work may have been done in part. */
  readonly outcome: 'new' | 'takeover'
  /** Names this claim; rising, never used twice for a key. */
  readonly fence: number
  /** When another may take it over; with `complete` when the key is free again. By the server's clock. */
  readonly expiresAt: Date
  readonly #pipe: Pipe
  readonly #namespace: string

  /** @internal */
  constructor(pipe: Pipe, namespace: string, readonly key: string, answer: ClaimAnswer) {
    this.outcome = answer.outcome as 'new' | 'takeover'
    this.fence = answer.fence
    this.expiresAt = present(answer.expiresAt, 'expires_at')
    this.#pipe = pipe
    this.#namespace = namespace
  }

  /**
   * The work is done: from now on the key is a duplicate. `result` (≤ 4 KiB; a text, bytes or JSON) is what duplicates get.
   * `leaseLost`: another had taken it over; nothing was written. Repeating it gives `completed` again.
   * @param options retention: counted from now, 1 ms..400 days; default what the claim was given.
   * @throws BadRequestError, TooLargeError, UnavailableError, DeadlineExceededError
   */
  async complete(result?: Value, options: { retention?: Duration; timeout?: Duration } = {}): Promise<CompleteResult> {
    checkKnown('complete', options, ['retention', 'timeout'])
    const body = encodeComplete(this.#namespace, this.key, this.fence, result, options.retention)
    const answer = await this.#pipe.call(COMPLETE, body, this.#pipe.timeout('complete', options.timeout))
    return answer.outcome === 'completed' ? { outcome: 'completed', expiresAt: present(answer.expiresAt, 'expires_at') } : { outcome: 'leaseLost' }
  }

  /**
   * More time for the work, counted from now: 1 ms..24 h, default 30 s. Also after the time has run out, if nobody has taken it over.
   * @throws BadRequestError, UnavailableError, DeadlineExceededError
   */
  async extend(inProgressTtl?: Duration, options: { timeout?: Duration } = {}): Promise<ExtendResult> {
    checkKnown('extend', options, ['timeout'])
    const body = encodeExtend(this.#namespace, this.key, this.fence, span('in_progress_ttl', inProgressTtl, WORK_MS))
    const answer = await this.#pipe.call(EXTEND, body, this.#pipe.timeout('extend', options.timeout))
    return answer.outcome === 'extended' ? { outcome: 'extended', expiresAt: present(answer.expiresAt, 'expires_at') } : { outcome: 'leaseLost' }
  }

  /** Gives the key back: it is free at once. @throws UnavailableError, DeadlineExceededError */
  async release(options: { timeout?: Duration } = {}): Promise<ReleaseResult> {
    checkKnown('release', options, ['timeout'])
    const body = encodeRelease(this.#namespace, this.key, this.fence)
    return this.#pipe.call(RELEASE, body, this.#pipe.timeout('release', options.timeout))
  }
}

/** What became of a claim. `claimed` true: a Claim. */
export type ClaimResult<Result = Value> =
  | Claim
  /** Somebody is at it; it can be taken over in `retryAfterMs` at the earliest (exact, rounded up). */
  | { readonly claimed: false; readonly outcome: 'inProgress'; readonly retryAfterMs: number }
  /** It was done. `result`: what `complete` was given; undefined if nothing. `expiresAt`: when the key is free again. */
  | { readonly claimed: false; readonly outcome: 'duplicate'; readonly result: Result | undefined; readonly expiresAt: Date | undefined }
  /** The key was claimed with another fingerprint: two different things share it. */
  | { readonly claimed: false; readonly outcome: 'mismatch' }

/** What became of `complete`. */
export type CompleteResult = { readonly outcome: 'completed'; readonly expiresAt: Date } | { readonly outcome: 'leaseLost' }
/** What became of `extend`. */
export type ExtendResult = { readonly outcome: 'extended'; readonly expiresAt: Date } | { readonly outcome: 'leaseLost' }
/** What became of `release`. */
export type ReleaseResult = { readonly outcome: 'released' } | { readonly outcome: 'leaseLost' }

/** @internal */
export function claimResult<Result>(pipe: Pipe, namespace: string, key: string, answer: ClaimAnswer): ClaimResult<Result> {
  switch (answer.outcome) {
    case 'new':
    case 'takeover':
      return new Claim(pipe, namespace, key, answer)
    case 'inProgress':
      return { claimed: false, outcome: 'inProgress', retryAfterMs: answer.retryAfterMs }
    case 'duplicate':
      return {
        claimed: false, outcome: 'duplicate', expiresAt: answer.expiresAt,
        result: decodePresent(answer.result) as Result | undefined,
      }
    case 'mismatch':
      return { claimed: false, outcome: 'mismatch' }
  }
}
