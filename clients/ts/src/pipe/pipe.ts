// Small calls over one stream a client. The calls of one tick go in one write; at most 256 are on their way, the others wait here.
// Each carries its own request_id or send_id, so whatever may have been lost is sent again, until the call's own deadline; each
// settles by then.

import type { Connection } from '../connection.js'
import { closed, deadlineExceeded, fromStatus, makeError, type PannierError } from '../errors.js'
import { PipeServiceService } from '../gen/pannier/v1/pipe.js'
import { Status } from '../gen/pannier/v1/status.js'
import { milliseconds, type Duration } from '../options.js'
import { ATTACH_AGAIN as OPEN_AGAIN, draining, TRY_AGAIN, unclear } from '../stream/requests.js'
import { Reader, varintSize, Writer } from '../stream/wire.js'
import type { RawStream } from '../transport/channel.js'
import { atMost, backoff } from '../waiting.js'
import type { Call, Method } from './call.js'

/** The sidecar takes so many of one stream. */
const IN_FLIGHT = 256
/** How often deadlines are looked at. */
const SWEEP_MS = 20
/** The sidecar answers a call by its deadline: when it has not so long after, the stream counts as dead. */
const GRACE_MS = 1000
/** The most that the wire takes as a timeout. */
const LONGEST_MS = 120_000
/** gRPC's head of a message. */
const HEAD = 5
const SEQ = 0x08
const TIMEOUT = 0x10
const ERROR = 2

/** See the top of this file. */
export class Pipe {
  #stream: RawStream | undefined
  #seq = 0
  readonly #flying = new Map<number, Call>()
  /** Not on their way; from `#head` on. */
  #waiting: Call[] = []
  #head = 0
  /** To be sent again a little later. */
  readonly #later = new Set<Call>()
  #unsettled = 0
  #flushing = false
  #sweeping: NodeJS.Timeout | undefined
  #reopening = false
  /** Times in a row that the stream ended without an answer. */
  #failures = 0
  /** Why the last stream ended. */
  #why: PannierError | undefined
  #closed = false
  #onIdle: (() => void) | undefined

  constructor(
    private readonly connection: Pick<Connection, 'stream'>,
    /** A call's deadline unless it has its own. */
    readonly timeoutMs: number,
  ) {}

  /** The deadline of a call that may have its own. @throws TypeError */
  timeout(where: string, own: Duration | undefined): number {
    return own === undefined ? this.timeoutMs : milliseconds(`${where}: timeout`, own, this.timeoutMs)
  }

  /** Makes a call. @throws PannierError */
  call<T>(method: Method<T>, body: Buffer, timeoutMs = this.timeoutMs): Promise<T> {
    if (this.#closed) return Promise.reject(closed('the connection'))
    return new Promise<T>((resolve, reject) => {
      const deadline = performance.now() + timeoutMs
      this.#waiting.push({
        method, body, timeoutMs, deadline, resolve: resolve as (value: unknown) => void, reject,
        seq: 0, settled: false, uncertain: false, attempt: 0, last: undefined,
      })
      if (this.#unsettled++ === 0) this.#watch()
      this.#flushSoon()
    })
  }

  /** Takes no more calls; ends when those there are have settled, at the latest after `timeoutMs`. */
  async close(timeoutMs: number): Promise<void> {
    this.#closed = true
    if (this.#unsettled > 0 && timeoutMs > 0) await atMost(timeoutMs, new Promise<void>(resolve => (this.#onIdle = resolve)))
    for (const call of this.#all()) {
      if (call.seq !== 0) call.uncertain = true
      this.#reject(call, closed('the connection'))
    }
    this.#waiting = []
    this.#later.clear()
    this.#flying.clear()
    clearTimeout(this.#sweeping)
    this.#stream?.cancel()
    this.#stream = undefined
  }

  #all(): Call[] {
    return [...this.#flying.values(), ...this.#later, ...this.#waiting.slice(this.#head)]
  }

  /** After everything that this tick does: what it calls goes together. */
  #flushSoon(): void {
    if (this.#flushing || this.#reopening) return
    this.#flushing = true
    process.nextTick(this.#flush)
  }

  readonly #flush = (): void => {
    this.#flushing = false
    if (this.#reopening || this.#head === this.#waiting.length) return
    const stream = (this.#stream ??= this.#open())
    const now = performance.now()
    const batch: { call: Call; timeoutMs: number; length: number }[] = []
    let size = 0
    while (this.#flying.size < IN_FLIGHT && this.#head < this.#waiting.length) {
      const call = this.#waiting[this.#head++] as Call
      if (call.settled) continue
      this.#seq = (this.#seq % 0xffff_ffff) + 1
      call.seq = this.#seq
      this.#flying.set(call.seq, call)
      const timeoutMs = Math.min(LONGEST_MS, Math.max(1, Math.ceil(call.deadline - now)))
      const { field } = call.method
      const { length: bytes } = call.body
      const length = 2 + varintSize(call.seq) + varintSize(timeoutMs) + (field < 16 ? 1 : 2) + varintSize(bytes) + bytes
      batch.push({ call, timeoutMs, length })
      size += HEAD + length
    }
    this.#forget()
    if (size === 0) return
    const writer = new Writer(size)
    for (const { call, timeoutMs, length } of batch) {
      writer.frame(length)
      writer.number(SEQ, call.seq)
      writer.number(TIMEOUT, timeoutMs)
      writer.head(call.method.field * 8 + 2, call.body.length)
      writer.raw(call.body)
    }
    stream.send(writer.buffer)
  }

  /** Drops what has been taken from the queue. */
  #forget(): void {
    if (this.#head === this.#waiting.length) this.#waiting.length = 0
    else if (this.#head > 1024 && this.#head * 2 > this.#waiting.length) this.#waiting.splice(0, this.#head)
    else return
    this.#head = 0
  }

  #open(): RawStream {
    const stream = this.connection.stream(
      PipeServiceService.pipe.path,
      {
        onMessage: message => {
          if (this.#stream === stream) this.#onMessage(message)
        },
        onEnd: (error, reached) => {
          if (this.#stream === stream) this.#onEnd(error, reached)
        },
      },
      // The sweep holds the process while a call is open; an idle stream must not.
      false,
    )
    return stream
  }

  #onMessage(message: Buffer): void {
    let seq = 0
    let field = 0
    let answer: Reader | undefined
    try {
      const reader = new Reader(message)
      while (reader.at < reader.end) {
        const tag = reader.varint()
        if (tag === SEQ) seq = reader.varint()
        else if ((tag & 7) === 2) {
          field = tag >>> 3
          answer = reader.enter()
        } else reader.skip(tag)
      }
    } catch {
      answer = undefined
    }
    if (answer === undefined) return this.#break(unreadable())
    const call = this.#flying.get(seq)
    // Given up, and sent on another stream.
    if (call === undefined) return
    this.#flying.delete(seq)
    this.#failures = 0
    call.seq = 0
    if (this.#head < this.#waiting.length) this.#flushSoon()
    if (!call.settled) this.#onAnswer(call, field, answer)
  }

  #onAnswer(call: Call, field: number, answer: Reader): void {
    if (field === ERROR) return this.#failed(call, fromStatus(Status.decode(answer.buffer.subarray(answer.at, answer.end))))
    try {
      if (field !== call.method.field) throw unreadable()
      const value = call.method.decode(answer)
      this.#settled(call)
      call.resolve(value)
    } catch (cause) {
      call.uncertain = true
      this.#reject(call, unreadable(cause))
    }
  }

  #failed(call: Call, error: PannierError): void {
    if (error.outcomeUnknown) call.uncertain = true
    const wait = error.retryAfterMs ?? backoff(call.attempt)
    if (!TRY_AGAIN.has(error.reason) || performance.now() + wait >= call.deadline) return this.#reject(call, error)
    call.attempt++
    call.last = error
    this.#later.add(call)
    // The sweep holds the process.
    setTimeout(() => {
      if (!this.#later.delete(call) || call.settled) return
      this.#waiting.push(call)
      this.#flushSoon()
    }, wait).unref()
  }

  /** What it was about may have happened, if one of its tries is not accounted for. */
  #reject(call: Call, error: PannierError): void {
    if (call.settled) return
    this.#settled(call)
    const doubt = call.uncertain && call.method.writes
    call.reject(doubt && !error.outcomeUnknown ? unclear(error) : error)
  }

  #settled(call: Call): void {
    call.settled = true
    if (--this.#unsettled > 0) return
    this.#sweeping?.unref()
    this.#onIdle?.()
  }

  #onEnd(error: PannierError | undefined, reached: boolean): void {
    this.#stream = undefined
    const again: Call[] = []
    for (const call of this.#flying.values()) {
      if (call.settled) continue
      call.seq = 0
      if (reached) call.uncertain = true
      again.push(call)
    }
    this.#flying.clear()
    this.#waiting = again.concat(this.#waiting.slice(this.#head))
    this.#head = 0
    this.#why = error ?? draining()
    if (!OPEN_AGAIN.has(this.#why.reason)) {
      // No other stream would fare better.
      for (const call of this.#waiting.splice(0)) this.#reject(call, this.#why)
      return
    }
    this.#reopening = true
    setTimeout(() => {
      this.#reopening = false
      if (!this.#closed || this.#unsettled > 0) this.#flushSoon()
    }, backoff(this.#failures++, 50, 1000)).unref()
  }

  #break(error: PannierError): void {
    this.#stream?.cancel()
    this.#onEnd(error, true)
  }

  /** Sees to deadlines, and holds the process, while a call is open. */
  #watch(): void {
    if (this.#sweeping) this.#sweeping.ref()
    else this.#sweeping = setTimeout(this.#sweepAfterReading, SWEEP_MS)
  }

  /** A process that was busy for longer than a deadline first takes the answers that came meanwhile. */
  readonly #sweepAfterReading = (): void => void setImmediate(this.#sweep)

  readonly #sweep = (): void => {
    this.#sweeping = undefined
    const now = performance.now()
    let dead = false
    for (const call of this.#flying.values()) {
      if (call.settled) dead ||= now >= call.deadline + GRACE_MS
      else if (now >= call.deadline) this.#late(call)
    }
    for (const call of this.#later) if (now >= call.deadline) this.#late(call)
    for (let at = this.#head; at < this.#waiting.length; at++) {
      const call = this.#waiting[at] as Call
      if (!call.settled && now >= call.deadline) this.#late(call)
    }
    if (dead) this.#break(makeError({ code: 'UNAVAILABLE', reason: 'SIDECAR_UNREACHABLE', message: 'the sidecar owes an answer for too long' }))
    if (this.#unsettled > 0) this.#watch()
    else if (this.#flying.size > 0) this.#sweeping = setTimeout(this.#sweepAfterReading, SWEEP_MS).unref()
  }

  #late(call: Call): void {
    this.#later.delete(call)
    const known = call.last ?? this.#why
    if (call.seq !== 0) {
      call.uncertain = true
      this.#reject(call, deadlineExceeded(call.method.what, call.timeoutMs, false, call.last))
    } else this.#reject(call, known !== undefined && this.#stream === undefined ? known : deadlineExceeded(call.method.what, call.timeoutMs, false, known))
  }
}

function unreadable(cause?: unknown): PannierError {
  return makeError({ code: 'INTERNAL', reason: 'INTERNAL', message: 'the sidecar sent an answer that cannot be read', cause })
}
