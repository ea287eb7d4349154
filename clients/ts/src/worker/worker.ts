// Runs a queue's jobs: so many at once, over as many streams as it takes. It never stops by itself and never silently: whatever breaks,
// it connects again, names the leases it still has, and says again how jobs ended until the sidecar has confirmed it.

import { EventEmitter } from 'node:events'
import type { Connection } from '../connection.js'
import { badField, closed, fenced, makeError, type PannierError } from '../errors.js'
import { count, span, textBytes, WORK_MS } from '../limits.js'
import { checkKnown, milliseconds, type Duration } from '../options.js'
import { TRY_AGAIN } from '../stream/requests.js'
import type { Value } from '../value.js'
import { RELEASE, RETRY, type LeaseKey, type RequestDraft, type WireJob } from './codec.js'
import { encodeResult, FailJob, JobCancelledError, JobContext, Lease, settleOf, type Handler, type Job } from './job.js'
import { Link } from './link.js'

/** How to work. */
export interface WorkerOptions {
  /** Jobs at once: 1..1 000, default 1. */
  concurrency?: number
  /**
   * How long a job stays with a worker that is not heard of: 1 s..24 h, default 30 s. It is renewed for as long as the handler runs; a worker
   * that dies has its jobs run again after so long. A handler that keeps the event loop busy for longer loses its jobs.
   */
  lease?: Duration
  /** Names this worker for lists: 1..512 bytes. Default: none. */
  name?: string
}

/** `working`: connected. `connecting`: not now, trying. `draining`: `close` was called, what runs may end. */
export type WorkerStatus = 'connecting' | 'working' | 'draining' | 'closed'

/** What can be listened to. Nothing has to be: there is no `error` event. A listener that throws disturbs nobody. */
export interface WorkerEvents<Payload = Value, Result = unknown> {
  status: (status: WorkerStatus) => void
  /** A job is done, and the sidecar has it. */
  completed: (job: Job<Payload>, result: Result) => void
  /** An attempt failed, and the sidecar has it. `retried`: another one follows. */
  failed: (job: Job<Payload>, error: unknown, how: { readonly retried: boolean }) => void
  /** A job is not ours any more: its lease ended, or it was removed. What its handler gives is not kept. */
  leaseLost: (job: Job<Payload>) => void
  /** Something went wrong that the worker goes on from: a broken stream, a result that cannot be kept. */
  problem: (error: PannierError) => void
}

const SETTLED = { ok: 1, alreadyDone: 2 } as const
/** The sidecar takes so many leases from one stream. */
const LEASES_MAX = 1000
const SETTLES_MAX = 1000
const PROGRESS_MAX = 100
/** One message's share of large results. */
const MESSAGE_BYTES = 1024 * 1024
const CLOSE_MS = 30_000
/** Handlers that heed their signal get this much of a `close` that runs out of time. */
const GRACE_MS = 1000
const AGAIN_MS = 500

/** What a worker needs of a Pannier. */
export interface Host {
  readonly connection: Connection
  readonly namespace: string
  adopt(dependent: { close(timeoutMs: number): Promise<void> }): () => void
}

/** See the top of this file. Made by `pannier.worker`; works at once. */
export class Worker<Payload = Value, Result = unknown> implements AsyncDisposable {
  readonly queues: readonly string[]
  readonly concurrency: number
  readonly #handler: Handler<Payload, Result>
  readonly #link: Link
  readonly #events = new EventEmitter()
  /** All leases that have not ended, by queue and fence. */
  readonly #leases = new Map<string, Map<number, Lease>>()
  /** Handlers that have not returned. */
  readonly #running = new Set<Lease>()
  /** Of these: to be begun in the next turn. */
  readonly #starting: Lease[] = []
  /** Ended by their handlers, not confirmed by the sidecar. */
  readonly #settling = new Set<Lease>()
  /** Of these: to be sent. */
  #unsent: Lease[] = []
  readonly #progress = new Set<Lease>()
  readonly #disown: () => void
  #status: WorkerStatus = 'connecting'
  #closing: Promise<void> | undefined
  #onDrained: (() => void) | undefined
  #nextWarning = 0

  /** @internal */
  constructor(host: Host, queues: string | readonly string[], handler: Handler<Payload, Result>, options: WorkerOptions) {
    checkKnown('worker', options, ['concurrency', 'lease', 'name'])
    if (typeof handler !== 'function') throw new TypeError('worker: the handler must be a function')
    this.queues = typeof queues === 'string' ? [queues] : [...queues]
    if (this.queues.length < 1 || this.queues.length > 64) throw badField('queues', 'must be 1..64')
    this.queues.forEach((queue, n) => textBytes(`queues[${n}]`, queue))
    if (new Set(this.queues).size < this.queues.length) throw badField('queues', 'must all be different')
    this.concurrency = options.concurrency === undefined ? 1 : count('concurrency', options.concurrency, 1, LEASES_MAX)
    const leaseMs = span('lease', options.lease, WORK_MS) ?? 30_000
    if (leaseMs < 1000) throw badField('lease', 'must be 1 s..24 h')
    if (options.name !== undefined) textBytes('name', options.name)
    this.#handler = handler
    for (const queue of this.queues) this.#leases.set(queue, new Map())
    this.#link = new Link(host.connection, { namespace: host.namespace, worker: options.name ?? '', queues: this.queues, leaseMs }, this)
    this.#disown = host.adopt({ close: timeoutMs => this.close({ timeout: timeoutMs }) })
    this.#link.start()
  }

  get status(): WorkerStatus {
    return this.#status
  }

  /** Handlers that run now. */
  get running(): number {
    return this.#running.size
  }

  /** Listens; returns what stops it. */
  on<Name extends keyof WorkerEvents>(event: Name, listener: WorkerEvents<Payload, Result>[Name]): () => void {
    if (!EVENTS.includes(event)) throw new TypeError(`pannier: there is no event "${String(event)}"; there are ${EVENTS.join(', ')}`)
    this.#events.on(event, listener)
    return () => this.#events.off(event, listener)
  }

  /**
   * Takes no more jobs and lets those that run end; nothing is lost and no attempt counted. Always ends, at the latest after `timeout`
   * (default 30 s): in the last second of it handlers are told to stop (`signal`), and the jobs of those that then throw go back; the job
   * of one that does not even then runs again when its lease ends.
   */
  close(options: { timeout?: Duration } = {}): Promise<void> {
    checkKnown('close', options, ['timeout'])
    this.#closing ??= this.#close(milliseconds('close: timeout', options.timeout, CLOSE_MS))
    return this.#closing
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }

  async #close(timeoutMs: number): Promise<void> {
    if (this.#status === 'closed') return
    this.#set('draining')
    const grace = Math.min(GRACE_MS, timeoutMs / 2)
    const timers = [
      setTimeout(() => {
        for (const lease of this.#running) lease.abort(closed('the worker'))
      }, timeoutMs - grace),
      setTimeout(() => this.#onDrained?.(), timeoutMs),
    ]
    await new Promise<void>(resolve => {
      this.#onDrained = resolve
      this.#link.drain()
      this.#look()
    })
    for (const timer of timers) clearTimeout(timer)
    this.#end()
  }

  #end(): void {
    this.#link.stop()
    this.#disown()
    this.#set('closed')
  }

  /** Whether closing is over. */
  #look(): void {
    // What cannot begin, since nobody says whether it is still ours, is not waited for.
    const idle = this.#link.connected ? 0 : this.#starting.length
    if (this.#onDrained && this.#running.size === idle && this.#settling.size === 0 && this.#link.quiet) this.#onDrained()
  }

  // ---- What the link asks and tells.

  /** @internal */
  held(): Lease[] {
    // Those whose handlers have ended are settled by their fences, held or not.
    return [...this.#running].filter(lease => !lease.lost).concat([...this.#settling]).slice(0, LEASES_MAX)
  }

  /** @internal */
  get leases(): Iterable<Lease> {
    return this.#running
  }

  /** @internal */
  wanted(credit: number): number {
    return Math.min(this.concurrency, LEASES_MAX - this.#settling.size) - this.#running.size - credit
  }

  /** @internal Writes settles and progress, as many as go into one message; true: there are more. */
  write(draft: RequestDraft): boolean {
    // First: how far a job was, said right before its end, is kept with it.
    let notes = 0
    for (const lease of this.#progress) {
      if (notes++ === PROGRESS_MAX) break
      if (lease.newProgress !== undefined && !lease.lost) draft.progress(lease, lease.newProgress)
      lease.newProgress = undefined
      this.#progress.delete(lease)
    }
    let settles = 0
    for (const lease of this.#unsent) {
      if (settles === SETTLES_MAX || draft.position > MESSAGE_BYTES) break
      settles++
      if (lease.settle) draft.settle(lease, lease.settle)
    }
    this.#unsent = settles === this.#unsent.length ? [] : this.#unsent.slice(settles)
    return this.#unsent.length > 0 || this.#progress.size > 0
  }

  /** @internal A stream is open: what was not confirmed on the one before is sent again. */
  onOpen(): void {
    this.#unsent = [...this.#settling]
  }

  /** @internal */
  onStatus(connected: boolean): void {
    if (this.#closing === undefined) this.#set(connected ? 'working' : 'connecting')
    this.#look()
  }

  /** @internal */
  onProblem(error: PannierError): void {
    if (this.#events.listenerCount('problem') > 0) return this.#emit('problem', error)
    // Nobody listens: said now and then, so that it is not silent.
    const now = performance.now()
    if (now < this.#nextWarning) return
    this.#nextWarning = now + 60_000
    process.emitWarning(`the worker goes on after: ${error.message} (${error.reason})`, 'PannierWarning')
  }

  /** @internal The connection was closed: that is the end. */
  onClosed(): void {
    for (const lease of this.#running) lease.abort(closed('the connection'))
    if (this.#onDrained) this.#onDrained()
    else if (this.#closing === undefined) {
      this.#closing = Promise.resolve()
      this.#end()
    }
  }

  /** @internal */
  onQuiet(): void {
    this.#look()
  }

  /** @internal */
  onJob(wire: WireJob, now: number, leaseMs: number): void {
    const lease = new Lease(wire, now, leaseMs, this.#onProgress)
    this.#leases.get(wire.queue)?.set(wire.fence, lease)
    this.#running.add(lease)
    this.#starting.push(lease)
  }

  /** @internal */
  begin(): void {
    for (const lease of this.#starting.splice(0)) {
      if (lease.lost) this.#ended(lease, undefined)
      else this.#begin(lease)
    }
  }

  #begin(lease: Lease): void {
    lease.begun = true
    let result: Result | Promise<Result>
    try {
      result = this.#handler(lease.job as Job<Payload>, new JobContext(lease))
    } catch (error) {
      return this.#failed(lease, error)
    }
    if (isThenable(result)) result.then(value => this.#done(lease, value), (error: unknown) => this.#failed(lease, error))
    else this.#done(lease, result)
  }

  readonly #onProgress = (lease: Lease): void => {
    this.#progress.add(lease)
    this.#link.flushSoon()
  }

  #done(lease: Lease, value: unknown): void {
    let bytes: string | Buffer = ''
    try {
      bytes = encodeResult(value)
    } catch (error) {
      // The work is done, and must not be done again for want of its result.
      this.onProblem(error as PannierError)
    }
    lease.settle = { verdict: 0, value: bytes, retryAfterMs: undefined }
    this.#ended(lease, value)
  }

  #failed(lease: Lease, error: unknown): void {
    lease.settle = settleOf(error, lease.aborted && !lease.cancelled && this.#closing !== undefined)
    this.#ended(lease, error)
  }

  #ended(lease: Lease, ending: unknown): void {
    this.#running.delete(lease)
    if (lease.lost) this.#forget(lease)
    else {
      lease.ending = ending
      this.#settling.add(lease)
      this.#unsent.push(lease)
    }
    this.#link.flushSoon()
    this.#look()
  }

  #forget(lease: Lease): void {
    this.#leases.get(lease.queue)?.delete(lease.fence)
    this.#settling.delete(lease)
  }

  /** @internal */
  onSettled(queue: string, fence: number, outcome: number): void {
    const lease = this.#leases.get(queue)?.get(fence)
    // Said twice, as what is sent again is.
    if (lease?.settle === undefined) return
    this.#forget(lease)
    const job = lease.job as Job<Payload>
    const { verdict } = lease.settle
    if (outcome !== SETTLED.ok && outcome !== SETTLED.alreadyDone) this.#emit('leaseLost', job)
    else if (verdict === 0) this.#emit('completed', job, lease.ending as Result)
    else if (verdict !== RELEASE) this.#emit('failed', job, lease.ending, { retried: verdict === RETRY && job.attempt < job.maxAttempts && !lease.cancelled })
    this.#look()
  }

  /** @internal */
  onLost(queue: string, fence: number): void {
    const lease = this.#leases.get(queue)?.get(fence)
    // Of one that is being settled the answer says more.
    if (lease === undefined || lease.settle || lease.lost) return
    lease.abort(fenced('the lease has ended: another worker may have the job'))
    lease.lost = true
    if (lease.begun) this.#emit('leaseLost', lease.job as Job<Payload>)
  }

  /** @internal */
  onCancel(queue: string, fence: number): void {
    const lease = this.#leases.get(queue)?.get(fence)
    if (lease === undefined || lease.cancelled || lease.settle) return
    lease.cancelled = true
    lease.abort(new JobCancelledError('the job was cancelled'))
  }

  /** @internal */
  onRefused(of: LeaseKey | undefined, reason: string, message: string): void {
    this.onProblem(makeError({ code: 'UNKNOWN', reason, message }))
    const lease = of && this.#leases.get(of.queue)?.get(of.fence)
    if (lease?.settle === undefined) return
    const again = (): void => {
      if (!this.#settling.has(lease) || this.#status === 'closed') return
      if (!this.#unsent.includes(lease)) this.#unsent.push(lease)
      this.#link.flushSoon()
    }
    if (TRY_AGAIN.has(reason)) setTimeout(again, AGAIN_MS * (0.5 + Math.random())).unref()
    else if (lease.refusals++ === 0) {
      // It cannot be kept as it is; left open, the lease would be renewed for good.
      lease.settle = settleOf(new FailJob(`how the job ended was refused: ${message}`), false)
      again()
    } else {
      this.#forget(lease)
      this.#look()
    }
  }

  #set(status: WorkerStatus): void {
    if (status === this.#status) return
    this.#status = status
    this.#emit('status', status)
  }

  #emit<Name extends keyof WorkerEvents>(event: Name, ...args: Parameters<WorkerEvents<Payload, Result>[Name]>): void {
    for (const listener of this.#events.listeners(event)) {
      try {
        // A promise that rejects is no less a listener that throws.
        const given: unknown = (listener as (...args: unknown[]) => unknown)(...args)
        if (isThenable(given)) given.then(undefined, (error: unknown) => warn(event, error))
      } catch (error) {
        warn(event, error)
      }
    }
  }
}

const EVENTS: readonly (keyof WorkerEvents)[] = ['status', 'completed', 'failed', 'leaseLost', 'problem']

function isThenable<T>(value: T | PromiseLike<T>): value is PromiseLike<T> {
  return typeof value === 'object' && value !== null && typeof (value as PromiseLike<T>).then === 'function'
}

function warn(event: string, error: unknown): void {
  process.emitWarning(`a listener of "${event}" threw: ${error instanceof Error ? error.message : String(error)}`, 'PannierWarning')
}
