// The Work stream on the wire: written and read by hand, as a busy worker has tens of thousands of jobs a second.

import { firsts, readSpan } from '../pipe/answers.js'
import { Draft } from '../pipe/draft.js'
import { fieldSize, varintSize, type Reader } from '../stream/wire.js'

/** Names a lease. A fence is never used twice in a queue. */
export interface LeaseName {
  readonly queue: string
  readonly number: number
  readonly fence: number
}

/** What is enough of it in answers. */
export type LeaseKey = Pick<LeaseName, 'queue' | 'fence'>

/** How a lease ends. `verdict`: 0 done, else a NackVerdict. */
export interface Settle {
  verdict: 0 | typeof RETRY | typeof FAIL | typeof RELEASE
  /** The result of what is done, the error of what is not. */
  value: string | Buffer
  retryAfterMs: number | undefined
}

export const RETRY = 1
export const FAIL = 2
export const RELEASE = 3

/** What a worker says first. */
export interface HelloTerms {
  readonly namespace: string
  readonly worker: string
  readonly queues: readonly string[]
  readonly leaseMs: number
  readonly held: readonly LeaseName[]
}

/** A job as it came. */
export interface WireJob {
  delivery: number
  queue: string
  id: string
  number: number
  fence: number
  attempt: number
  maxAttempts: number
  payload: Buffer
  group: string
  priority: number
  dueMs: number
  leasedMs: number
  createdMs: number
  progress: Buffer
}

/** What the sidecar can say, each when it is read. */
export interface WorkListener {
  onWelcome(leaseMs: number): void
  onJob(job: WireJob): void
  onSettled(queue: string, fence: number, outcome: number): void
  onLost(queue: string, fence: number): void
  onCancel(queue: string, fence: number): void
  onQuiet(): void
  onDraining(): void
  onRenewed(): void
  onRefused(lease: LeaseKey | undefined, reason: string, message: string): void
}

const inner = new Draft()

/** WorkRequest, one field after the other. */
export class RequestDraft extends Draft {
  hello({ namespace, worker, queues, leaseMs, held }: HelloTerms): void {
    inner.begin()
    inner.text(0x0a, namespace)
    inner.text(0x12, worker)
    for (const queue of queues) inner.text(0x1a, queue)
    inner.span(0x22, leaseMs)
    for (const name of held) lease(inner, 0x32, name)
    this.bytes(0x0a, inner.take())
  }

  settle(name: LeaseName, { verdict, value, retryAfterMs }: Settle): void {
    inner.begin()
    lease(inner, 0x0a, name)
    inner.number(0x10, verdict)
    const length = Buffer.byteLength(value)
    if (length > 0) inner.field(verdict === 0 ? 0x1a : 0x22, value, length)
    inner.span(0x2a, retryAfterMs)
    this.bytes(0x12, inner.buffer.subarray(0, inner.position))
  }

  received(delivery: number): void {
    this.number(0x18, delivery)
  }

  credit(count: number): void {
    this.number(0x20, count)
  }

  heartbeat(): void {
    this.number(0x28, 1)
  }

  progress(name: LeaseName, value: string | Buffer): void {
    inner.begin()
    lease(inner, 0x0a, name)
    inner.field(0x12, value, Buffer.byteLength(value))
    this.bytes(0x32, inner.buffer.subarray(0, inner.position))
  }

  draining(): void {
    this.number(0x38, 1)
  }
}

function lease(draft: Draft, tag: number, { queue, number, fence }: LeaseName): void {
  const length = Buffer.byteLength(queue)
  draft.head(tag, fieldSize(length) + 2 + varintSize(number) + varintSize(fence))
  draft.field(0x0a, queue, length)
  draft.number(0x10, number)
  draft.number(0x18, fence)
}

/** Reads a WorkResponse. @throws RangeError */
export function readResponse(reader: Reader, listener: WorkListener): void {
  while (reader.at < reader.end) {
    const tag = reader.varint()
    switch (tag) {
      case 0x0a: listener.onWelcome(firsts(reader.enter(), readSpan).at(-1) ?? 0); break
      case 0x12: listener.onJob(job(reader.enter())); break
      case 0x1a: settled(reader.enter(), listener); break
      case 0x22: {
        const { queue, fence } = name(reader.enter())
        listener.onLost(queue, fence)
        break
      }
      case 0x2a: {
        const { queue, fence } = name(reader.enter())
        listener.onCancel(queue, fence)
        break
      }
      case 0x30: if (reader.varint() !== 0) listener.onQuiet(); break
      case 0x38: if (reader.varint() !== 0) listener.onDraining(); break
      case 0x40: if (reader.varint() !== 0) listener.onRenewed(); break
      case 0x4a: refused(reader.enter(), listener); break
      default: reader.skip(tag)
    }
  }
}

function name(reader: Reader): LeaseKey {
  let queue = ''
  let fence = 0
  while (reader.at < reader.end) {
    const tag = reader.varint()
    if (tag === 0x0a) queue = reader.string()
    else if (tag === 0x18) fence = reader.varint()
    else reader.skip(tag)
  }
  return { queue, fence }
}

function settled(reader: Reader, listener: WorkListener): void {
  let of: LeaseKey = { queue: '', fence: 0 }
  let outcome = 0
  while (reader.at < reader.end) {
    const tag = reader.varint()
    if (tag === 0x0a) of = name(reader.enter())
    else if (tag === 0x10) outcome = reader.varint()
    else reader.skip(tag)
  }
  listener.onSettled(of.queue, of.fence, outcome)
}

function refused(reader: Reader, listener: WorkListener): void {
  let of: LeaseKey | undefined
  let reason = ''
  let message = ''
  while (reader.at < reader.end) {
    const tag = reader.varint()
    if (tag === 0x0a) of = name(reader.enter())
    else if (tag === 0x12) reason = reader.string()
    else if (tag === 0x1a) message = reader.string()
    else reader.skip(tag)
  }
  listener.onRefused(of, reason, message)
}

function job(reader: Reader): WireJob {
  const job: WireJob = {
    delivery: 0, queue: '', id: '', number: 0, fence: 0, attempt: 0, maxAttempts: 0, payload: NONE, group: '', priority: 0,
    dueMs: 0, leasedMs: 0, createdMs: 0, progress: NONE,
  }
  while (reader.at < reader.end) {
    const tag = reader.varint()
    switch (tag) {
      case 0x08: job.delivery = reader.varint(); break
      case 0x12: job.queue = reader.string(); break
      case 0x1a: job.id = reader.string(); break
      case 0x20: job.number = reader.varint(); break
      case 0x28: job.fence = reader.varint(); break
      case 0x30: job.attempt = reader.varint(); break
      case 0x38: job.maxAttempts = reader.varint(); break
      case 0x42: job.payload = reader.bytes(); break
      case 0x4a: job.group = reader.string(); break
      case 0x50: job.priority = reader.varint(); break
      case 0x5a: job.dueMs = readSpan(reader); break
      case 0x62: job.leasedMs = readSpan(reader); break
      case 0x72: job.createdMs = readSpan(reader); break
      case 0x7a: job.progress = reader.bytes(); break
      default: reader.skip(tag)
    }
  }
  return job
}

const NONE: Buffer = Buffer.alloc(0)
