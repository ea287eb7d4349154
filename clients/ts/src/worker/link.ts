// A worker's stream to the sidecar, and the next one when it breaks. What is to be said in one turn of the event loop goes in one message.

import type { Connection } from '../connection.js'
import { deadlineExceeded, fenced, makeError, type PannierError } from '../errors.js'
import { ScheduleServiceService } from '../gen/pannier/v1/schedule.js'
import { draining, TRY_AGAIN } from '../stream/requests.js'
import { Reader } from '../stream/wire.js'
import type { RawStream } from '../transport/channel.js'
import { backoff } from '../waiting.js'
import { readResponse, RequestDraft, type HelloTerms, type LeaseKey, type WireJob, type WorkListener } from './codec.js'
import type { Lease } from './job.js'

/** Whom it works for, and to whom it passes on what is not its own concern. */
export interface LinkOwner extends Pick<WorkListener, 'onSettled' | 'onLost' | 'onCancel' | 'onQuiet' | 'onRefused'> {
  /** Leases to go on with on a new stream. */
  held(): Lease[]
  /** Those that are renewed. */
  readonly leases: Iterable<Lease>
  /** How many more jobs, when so many are on their way. */
  wanted(credit: number): number
  write(draft: RequestDraft): boolean
  onOpen(): void
  onStatus(connected: boolean): void
  onProblem(error: PannierError): void
  onClosed(): void
  /** A job came; it is not to be begun before `begin`. */
  onJob(job: WireJob, now: number, leaseMs: number): void
  begin(): void
}

/** For Welcome, at least. */
const WELCOME_MS = 10_000
/** Between tries of what waiting does not cure, such as a wrong token. */
const SLOW_MS = 30_000
const draft = new RequestDraft()

/** See the top of this file. Times are of performance.now(). */
export class Link implements WorkListener {
  #stream: RawStream | undefined
  #welcome = false
  #openedAt = 0
  #leaseMs: number
  /** Jobs asked for on this stream that have not come. */
  #credit = 0
  #received = 0
  #receivedSent = 0
  /** Jobs, with the message that is being read. */
  #came = false
  #heartbeat = false
  /** Sent and not answered; 0: none. */
  #beatAt = 0
  #lastBeat = 0
  #draining = false
  #drainSent = false
  #quiet = false
  /** The sidecar stops. */
  #leaving = false
  #failures = 0
  #flushing = false
  #stopped = false
  #ticking: NodeJS.Timeout | undefined
  #reopening: NodeJS.Timeout | undefined

  constructor(
    private readonly connection: Connection,
    private readonly terms: Omit<HelloTerms, 'held'>,
    private readonly owner: LinkOwner,
  ) {
    this.#leaseMs = terms.leaseMs
  }

  start(): void {
    // It holds the process, also while there is no stream.
    this.#ticking = setInterval(() => setImmediate(this.#tick), Math.min(1000, this.terms.leaseMs / 12))
    this.#open()
  }

  stop(): void {
    this.#stopped = true
    clearInterval(this.#ticking)
    clearTimeout(this.#reopening)
    this.#stream?.cancel()
    this.#stream = undefined
  }

  /** Asks for no more jobs, and for the word that none will come. */
  drain(): void {
    this.#draining = true
    this.flushSoon()
  }

  /** The sidecar has greeted on the stream that there is. */
  get connected(): boolean {
    return this.#stream !== undefined && this.#welcome
  }

  /** No job will come. */
  get quiet(): boolean {
    return this.#quiet || this.#stream === undefined || (!this.#welcome && this.#draining)
  }

  /** After everything that this turn does, handlers that end at once included. */
  flushSoon(): void {
    if (this.#flushing || this.#stopped || this.#stream === undefined) return
    this.#flushing = true
    setImmediate(this.#flushLater)
  }

  readonly #flushLater = (): void => {
    this.#flushing = false
    this.#flush()
  }

  #flush(): void {
    for (let more = true; more && this.#stream && !this.#stopped; ) {
      draft.begin()
      more = this.#write()
      if (draft.position > 0) this.#stream.write(draft.take())
    }
  }

  #write(): boolean {
    const more = this.owner.write(draft)
    if (this.#received > this.#receivedSent) {
      draft.received(this.#received)
      this.#receivedSent = this.#received
    }
    if (this.#draining) {
      if (!this.#drainSent) draft.draining()
      this.#drainSent = true
    } else if (!this.#leaving) {
      const wanted = this.owner.wanted(this.#credit)
      if (wanted > 0) {
        draft.credit(wanted)
        this.#credit += wanted
      }
    }
    if (this.#heartbeat) {
      draft.heartbeat()
      // Not from when it was due: a handler that keeps the process busy is no silence of the sidecar.
      if (this.#beatAt === 0) this.#beatAt = performance.now()
    }
    this.#heartbeat = false
    return more
  }

  #open(): void {
    if (this.#stopped) return
    if (this.connection.status === 'closed') return this.owner.onClosed()
    const stream = this.connection.stream(ScheduleServiceService.work.path, {
      onMessage: message => {
        if (this.#stream === stream) this.#onMessage(message)
      },
      onEnd: error => {
        if (this.#stream === stream) this.#onEnd(error)
      },
    })
    this.#stream = stream
    this.#openedAt = this.#lastBeat = performance.now()
    this.#welcome = this.#quiet = this.#leaving = this.#drainSent = this.#heartbeat = false
    this.#credit = this.#received = this.#receivedSent = this.#beatAt = 0
    draft.begin()
    draft.hello({ ...this.terms, held: this.owner.held() })
    stream.write(draft.take())
    this.owner.onOpen()
    this.flushSoon()
  }

  #onMessage(message: Buffer): void {
    try {
      readResponse(new Reader(message), this)
    } catch (cause) {
      return this.#break(makeError({ code: 'INTERNAL', reason: 'INTERNAL', message: 'the sidecar sent a message that cannot be read', cause }))
    }
    if (!this.#came) return
    this.#came = false
    // Said before anything runs: a job that kills its process, or does not let it go, must have cost an attempt. What is written now
    // has left when the next turn begins.
    this.#flush()
    setImmediate(this.#begin)
  }

  /** What came on a stream that has ended may have gone back unheard: the next one's Welcome says what is still ours. */
  readonly #begin = (): void => {
    if (this.connected) this.owner.begin()
  }

  #break(error: PannierError): void {
    this.#stream?.cancel()
    this.#onEnd(error)
  }

  #onEnd(error: PannierError | undefined): void {
    this.#stream = undefined
    if (this.#stopped) return
    if (error?.reason === 'CLOSED') return this.owner.onClosed()
    const known = error ?? draining()
    // After a drain the end is in order.
    if (!this.#drainSent) this.owner.onProblem(known)
    this.owner.onStatus(false)
    // Closing ends by that, unless something is left to settle.
    if (this.#stopped) return
    const most = TRY_AGAIN.has(known.reason) ? 2000 : SLOW_MS
    this.#reopening = setTimeout(() => this.#open(), backoff(this.#failures++, 50, most))
  }

  readonly #tick = (): void => {
    if (this.#stopped) return
    const now = performance.now()
    for (const lease of this.owner.leases) {
      // If the handler ends all the same, the sidecar decides.
      if (now >= lease.heldUntil && lease.begun && !lease.aborted) lease.abort(fenced('the lease could not be renewed: another worker may have the job'))
    }
    if (this.#stream === undefined) return
    if (!this.#welcome) {
      if (now - this.#openedAt > Math.max(WELCOME_MS, this.#leaseMs)) this.#break(deadlineExceeded('the greeting of the sidecar', WELCOME_MS, false))
    } else if (this.#beatAt > 0 && now - this.#beatAt > this.#leaseMs) {
      this.#break(deadlineExceeded('renewing leases', this.#leaseMs, false))
    } else if (now - this.#lastBeat >= this.#leaseMs / 3) {
      this.#lastBeat = now
      this.#heartbeat = true
      this.flushSoon()
    }
  }

  // ---- What the sidecar says.

  onWelcome(leaseMs: number): void {
    if (leaseMs > 0) this.#leaseMs = leaseMs
    this.#welcome = true
    this.#failures = 0
    // Hello renewed what was held; what was not is said to be lost.
    for (const lease of this.owner.leases) lease.heldUntil = Math.max(lease.heldUntil, this.#openedAt + this.#leaseMs)
    this.owner.onStatus(true)
    // When this message has been read, which also says what is lost.
    setImmediate(this.#begin)
  }

  onJob(job: WireJob): void {
    this.#credit--
    // It has gone back: that it was not received was said with the drain, or will be.
    if (this.#draining) return
    // Those of several queues may overtake each other.
    this.#received = Math.max(this.#received, job.delivery)
    this.#came = true
    this.owner.onJob(job, performance.now(), this.#leaseMs)
  }

  onSettled(queue: string, fence: number, outcome: number): void {
    this.owner.onSettled(queue, fence, outcome)
  }

  onLost(queue: string, fence: number): void {
    this.owner.onLost(queue, fence)
  }

  onCancel(queue: string, fence: number): void {
    this.owner.onCancel(queue, fence)
  }

  onQuiet(): void {
    // Said by itself when the sidecar stops: then it is no answer to a drain, yet as true.
    this.#quiet = true
    this.owner.onQuiet()
  }

  onDraining(): void {
    this.#leaving = true
  }

  onRenewed(): void {
    if (this.#beatAt === 0) return
    for (const lease of this.owner.leases) {
      if (lease.arrivedAt <= this.#beatAt) lease.heldUntil = Math.max(lease.heldUntil, this.#beatAt + this.#leaseMs)
    }
    this.#beatAt = 0
  }

  onRefused(lease: LeaseKey | undefined, reason: string, message: string): void {
    this.owner.onRefused(lease, reason, message)
  }
}
