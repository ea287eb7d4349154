// Waits: between tries, and for what may never come.

import type { PannierError } from './errors.js'

/** Exponential, with full jitter on its upper half: `base · 2^attempt` up to `max`. */
export function backoff(attempt: number, base = 50, max = 2000): number {
  const top = Math.min(max, base * 2 ** Math.min(attempt, 16))
  return top / 2 + (Math.random() * top) / 2
}

/** Waits. */
export function sleep(ms: number): Promise<void> {
  return new Promise(resolve => setTimeout(resolve, ms))
}

/** Waits for `work`, but not for longer; a rejection that comes in time is passed on. */
export async function atMost(ms: number, work: Promise<unknown>): Promise<void> {
  let timer: NodeJS.Timeout | undefined
  const end = new Promise<void>(resolve => (timer = setTimeout(resolve, ms)))
  try {
    await Promise.race([work, end])
  } finally {
    clearTimeout(timer)
  }
}

/**
 * Tries until it succeeds. After a failure `goesOn` says whether it is tried again when `waitMs` have passed: what the sidecar asks
 * for, else longer with each attempt (from 0). If not, the failure is passed on.
 */
export async function retried<T>(work: () => Promise<T>, goesOn: (failure: PannierError, waitMs: number, attempt: number) => boolean): Promise<T> {
  for (let attempt = 0; ; attempt++) {
    try {
      return await work()
    } catch (error) {
      const failure = error as PannierError
      const wait = failure.retryAfterMs ?? backoff(attempt)
      if (!goesOn(failure, wait, attempt)) throw failure
      await sleep(wait)
    }
  }
}
