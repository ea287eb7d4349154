// Work under a claim: extended while it runs, completed or released when it ends.

import { BadRequestError, fenced, PannierError } from '../errors.js'
import { span, WORK_MS } from '../limits.js'
import type { Value } from '../value.js'
import type { Duration } from '../options.js'
import type { Claim, ClaimResult, CompleteResult } from './claim.js'
import type { ClaimOptions, Dedup } from './dedup.js'

/** What is to be done once. */
export type Work<T> = (context: WorkContext) => T | Promise<T>

/** What the work is told. */
export interface WorkContext {
  /** Aborts when the claim is lost, or could not be extended until its time ran out: another may be at it. */
  readonly signal: AbortSignal
  /** Of the claim: rising with each claim of the key. For stores that can refuse an older one. */
  readonly fence: number
  /** An earlier try died on the way: it may have been done in part. */
  readonly takeover: boolean
}

/** How to run. */
export interface RunOptions<T> extends ClaimOptions {
  /** What duplicates get, from what the work gave; ≤ 4 KiB. Default: nothing. */
  result?: (value: T) => Value
}

/**
 * What became of it. `completed`: the work ran and is done. `leaseLost`: it ran, but another had taken the claim over meanwhile.
 * The others: it did not run.
 */
export type RunResult<T> =
  | { readonly ran: true; readonly outcome: 'completed' | 'leaseLost'; readonly value: T }
  | ({ readonly ran: false } & Exclude<ClaimResult, Claim>)

const IN_PROGRESS_MS = 30_000
const TOO_LATE = 'the claim could not be extended in time: another may have taken it over'

/** @internal */
export async function runClaimed<T>(dedup: Dedup, key: string, work: Work<T>, options: RunOptions<T>): Promise<RunResult<T>> {
  const { result, ...how } = options
  const claim = await dedup.claim(key, how)
  if (!claim.claimed) return { ran: false, ...claim }
  const ms = span('in_progress_ttl', options.inProgressTtl, WORK_MS) ?? IN_PROGRESS_MS
  const keeper = keep(claim, ms)
  let value: T
  try {
    value = await work({ signal: keeper.signal, fence: claim.fence, takeover: claim.outcome === 'takeover' })
  } catch (error) {
    keeper.stop()
    // What the caller must see is the work's own error; an unreleased claim runs out by itself.
    await claim.release().catch(() => {})
    throw error
  }
  keeper.stop()
  // The work is done: it is worth as long as the claim may last.
  const until = { timeout: Math.max(ms, 5000), ...(how.retention === undefined ? {} : { retention: how.retention }) }
  const completed = await completeWith(claim, () => result?.(value), until)
  return { ran: true, outcome: completed.outcome, value }
}

/** Done is done: a result that cannot be stored is the caller's error, but the work must not run again for it. */
async function completeWith(claim: Claim, result: () => Value | undefined, until: { retention?: Duration; timeout: Duration }): Promise<CompleteResult> {
  try {
    return await claim.complete(result(), until)
  } catch (error) {
    if (!(error instanceof PannierError) || error instanceof BadRequestError) await claim.complete(undefined, until).catch(() => {})
    throw error
  }
}

/** Extends a claim each third of its time. */
function keep(claim: Claim, ms: number): { signal: AbortSignal; stop(): void } {
  const aborter = new AbortController()
  let heldUntil = performance.now() + ms
  let asking = false
  let stopped = false
  const lose = (why: string): void => {
    clearInterval(timer)
    aborter.abort(fenced(why))
  }
  const extend = async (): Promise<void> => {
    const asked = performance.now()
    if (asking) return
    if (asked >= heldUntil) return lose(TOO_LATE)
    asking = true
    try {
      const { outcome } = await claim.extend(ms, { timeout: Math.max(1, Math.ceil(heldUntil - asked)) })
      if (outcome === 'extended') heldUntil = asked + ms
      else if (!stopped) lose('the claim was taken over')
    } catch {
      // Tried again until its time runs out.
      if (!stopped && performance.now() >= heldUntil) lose(TOO_LATE)
    } finally {
      asking = false
    }
  }
  const timer = setInterval(() => void extend(), Math.max(1, ms / 3)).unref()
  return {
    signal: aborter.signal,
    stop() {
      stopped = true
      clearInterval(timer)
    },
  }
}
