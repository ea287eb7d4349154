// A message is handled once, and not lost between the claim and the work.

import { closed } from '../errors.js'
import { checkKnown, type Duration } from '../options.js'
import type { Pipe } from '../pipe/pipe.js'
import type { Value } from '../value.js'
import { claimResult, type ClaimResult } from './claim.js'
import { CLAIM, CLAIM_BATCH, encodeBatch, encodeClaim, terms } from './codec.js'
import { runClaimed, type RunOptions, type RunResult, type Work } from './run.js'

/** How to claim. */
export interface ClaimOptions {
  /** ≤ 512 bytes that are equal when the content is. The key claimed before with another one → `mismatch`. Default: not compared. */
  fingerprint?: string | Uint8Array
  /** How long the work may take before another may take over: 1 ms..24 h. Default 30 s. */
  inProgressTtl?: Duration
  /** How long the key is a duplicate once done: 1 ms..400 days. Default 8 days: the Cloud API redelivers for up to 7. */
  retention?: Duration
  /** Of this call, retries included. Default that of `connect`. */
  timeout?: Duration
}

/** One of a batch. */
export interface ClaimItem {
  key: string
  fingerprint?: string | Uint8Array
}

const OPTIONS = ['fingerprint', 'inProgressTtl', 'retention', 'timeout'] as const
const NO_OPTIONS: Readonly<ClaimOptions> = {}

/**
 * Claims. A key is free, in progress (until its time runs out) or done (until its retention ends). Keys: 1..512 bytes of UTF-8, any
 * characters. WhatsApp reuses a message's id for its statuses: put the kind and the status into the key, such as
 * `status:wamid.X:read`. A "no" is an outcome; an error means that it could not be decided: BadRequestError, UnavailableError,
 * DeadlineExceededError, ExhaustedError (Valkey is full; nothing was written).
 */
export class Dedup {
  readonly #pipe: Pipe
  readonly #namespace: string
  readonly #running = new Set<Promise<unknown>>()
  #closed = false

  /** @internal */
  constructor(pipe: Pipe, namespace: string) {
    this.#pipe = pipe
    this.#namespace = namespace
  }

  /**
   * At most once, in one call: true for the first of a key, false for all others until `ttl` has passed. As `SET key 1 NX EX`: the
   * message counts as handled from now on, also if this process dies at the next line; `run` or `claim` where it must not be lost.
   * @param options ttl: 1 ms..400 days, default 8 days.
   */
  async claimOnce(key: string, options: { ttl?: Duration; timeout?: Duration } = {}): Promise<boolean> {
    checkKnown('claimOnce', options, ['ttl', 'timeout'])
    const body = encodeClaim(this.#namespace, key, undefined, terms(undefined, options.ttl, true))
    return (await this.#pipe.call(CLAIM, body, this.#pipe.timeout('claimOnce', options.timeout))).outcome === 'new'
  }

  /** Claims a key: at least once. Whoever has it completes or releases it; if it does neither, another takes over when its time ends. */
  async claim<Result = Value>(key: string, options: ClaimOptions = NO_OPTIONS): Promise<ClaimResult<Result>> {
    checkKnown('claim', options, OPTIONS)
    const body = encodeClaim(this.#namespace, key, options.fingerprint, terms(options.inProgressTtl, options.retention, false))
    const answer = await this.#pipe.call(CLAIM, body, this.#pipe.timeout('claim', options.timeout))
    return claimResult(this.#pipe, this.#namespace, key, answer)
  }

  /**
   * Claims 1..100 keys, each judged by itself, in order: the same key twice gives `new`, then `inProgress`. Sent again as a whole when
   * its answer is lost, which is safe. The answers are in the order of `items`.
   */
  async claimBatch<Result = Value>(
    items: readonly (string | ClaimItem)[],
    options: Omit<ClaimOptions, 'fingerprint'> = NO_OPTIONS,
  ): Promise<ClaimResult<Result>[]> {
    checkKnown('claimBatch', options, OPTIONS.slice(1))
    const wire = items.map(item => (typeof item === 'string' ? { key: item } : item))
    for (const item of wire) checkKnown('claimBatch: item', item, ['key', 'fingerprint'])
    const body = encodeBatch(this.#namespace, wire, terms(options.inProgressTtl, options.retention, false))
    const answers = await this.#pipe.call(CLAIM_BATCH, body, this.#pipe.timeout('claimBatch', options.timeout))
    return answers.map((answer, n) => claimResult(this.#pipe, this.#namespace, (wire[n] as ClaimItem).key, answer))
  }

  /**
   * Claims, runs `work`, and completes; a key that is not free runs nothing and says why. While `work` runs its claim is extended;
   * when it throws, the claim is released, so that the next delivery runs it again, and the error is passed on. When the claim is
   * lost or cannot be kept, `signal` aborts: another may be at it. A process that dies is taken over after `inProgressTtl`.
   */
  async run<T>(key: string, work: Work<T>, options: RunOptions<T> = {}): Promise<RunResult<T>> {
    checkKnown('run', options, [...OPTIONS, 'result'])
    if (this.#closed) throw closed('the connection')
    const running = runClaimed(this, key, work, options)
    const settled = running.then(NOTHING, NOTHING).finally(() => this.#running.delete(settled))
    this.#running.add(settled)
    return running
  }

  /** @internal Takes no more work; ends when what runs has. */
  async close(): Promise<void> {
    this.#closed = true
    await Promise.all(this.#running)
  }
}

const NOTHING = (): void => {}
