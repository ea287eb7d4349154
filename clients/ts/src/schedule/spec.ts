// A job as an application asks for it, checked as the sidecar checks it, and written for the wire.

import { badField, tooLarge } from '../errors.js'
import { count, DAY_MS, LATEST_MS, LONGEST_MS, numberOf, textBytes } from '../limits.js'
import { checkKnown, inMilliseconds, type Duration } from '../options.js'
import { Draft } from '../pipe/draft.js'
import { encodePresent, type Value } from '../value.js'

/** How a failed attempt is followed by the next: after min(24 h, base · 2^(attempt − 1)). */
export interface RetryPolicy {
  /** 1..1 000; default 3. An attempt counts when it begins, also when its worker dies; a release, a drain and a cap's deferral do not. */
  maxAttempts?: number
  /** 1 ms..24 h; default 60 s. */
  base?: Duration
  /** 0..100, default 0: the wait is drawn from the last so many percent of it, so that jobs which failed together do not come back together. */
  jitterPercent?: number
}

/** Sends that caps must allow before the job starts: counted at the start of each attempt. Denied, it waits and uses no attempt. */
export interface CapGate {
  /** 1..8 names, none twice. An unknown one → the job is dead. */
  policies: string | readonly string[]
  /** As in `caps.consume`. */
  recipient?: string
  /** As in `caps.consume`. */
  sender?: string
  /** 1..1 000 000, default 1. */
  n?: number
}

/** What every job may have. */
export interface JobContent<Payload = Value> {
  /** A text, bytes, or anything of JSON; comes to the worker as what it was. ≤ 256 KiB. Encrypted. */
  payload?: Payload
  /** From now, by the server's clock; negative: at once. To the millisecond, until the end of the year 9999. Not with `dueAt`. */
  delay?: Duration
  /** When; in the past: at once. Compared with the server's clock, never this machine's. */
  dueAt?: Date
  /** 0..8 191, default 0; a smaller one goes first. */
  priority?: number
  /** Jobs of one group run one at a time, in the order in which they were accepted: a chat's messages never overtake each other. */
  group?: string
  /** What is not given is the queue's, else the defaults. */
  retry?: RetryPolicy
  /** Not started by then → dead, `expired`. Not with `deadlineIn`. */
  deadline?: Date
  /** The same, from when it is accepted. */
  deadlineIn?: Duration
  cap?: CapGate
  /** A cancelled or purged job frees its id at once, unless this is true. */
  holdWhenCancelled?: boolean
}

/** A job to be. */
export interface JobOptions<Payload = Value> extends JobContent<Payload> {
  /** Unique in its queue: 1..512 bytes, any characters. Default: a new UUID. */
  id?: string
  /** How long the id stays taken after max(due, end): 0..400 days, default 7 days; 0 frees it at the end. */
  uniqueWindow?: Duration
  /**
   * When the id is taken. `keep` (default): the job there stays as it is. `replace`: content and due time become these, its attempts
   * begin anew; a dead one lives again. `reschedule`: only the due time. One that a worker has stays as it is.
   */
  onConflict?: 'keep' | 'replace' | 'reschedule'
}

/** One message of a webhook. */
export interface IngestItem<Payload = Value> extends JobContent<Payload> {
  /**
   * 1..512 bytes: what stays the same when the message comes again. It is the job's id. Statuses of the Cloud API reuse the message's
   * id: put kind, id and status together.
   */
  dedupKey: string
}

const CONTENT = ['payload', 'delay', 'dueAt', 'priority', 'group', 'retry', 'deadline', 'deadlineIn', 'cap', 'holdWhenCancelled'] as const
const JOB = ['id', ...CONTENT, 'uniqueWindow', 'onConflict'] as const
const INGEST = ['dedupKey', ...CONTENT] as const
const RETRY = ['maxAttempts', 'base', 'jitterPercent'] as const
const CAP = ['policies', 'recipient', 'sender', 'n'] as const
const CONFLICTS = ['keep', 'replace', 'reschedule'] as const
const PAYLOAD_MAX = 256 * 1024

const draft = new Draft()
const part = new Draft()

/** JobSpec. The bytes are valid until the next one is encoded. @throws BadRequestError, TooLargeError, TypeError */
export function encodeJob(field: string, job: JobOptions<unknown>): Uint8Array {
  checkKnown(field, job, JOB)
  draft.begin()
  if (job.id !== undefined) draft.text(0x0a, job.id, textBytes(`${field}.id`, job.id))
  content(field, job)
  if (job.uniqueWindow !== undefined) draft.span(0x5a, wait(`${field}.unique_window`, job.uniqueWindow, LONGEST_MS))
  if (job.onConflict !== undefined) draft.number(0x60, numberOf(`${field}.on_conflict`, CONFLICTS, job.onConflict))
  return encoded(field, job)
}

/** JobSpec of an ingested message. The same. */
export function encodeIngested(field: string, item: IngestItem<unknown>): Uint8Array {
  checkKnown(field, item, INGEST)
  draft.begin()
  content(field, item)
  return encoded(field, item)
}

/** JobSpec of what a cron makes. The same. */
export function encodeTemplate(field: string, template: JobContent<unknown>): Uint8Array {
  checkKnown(field, template, CONTENT)
  for (const name of ['delay', 'dueAt'] as const) if (template[name] !== undefined) throw badField(field, `\`${name}\` cannot be given: the cron says when`)
  draft.begin()
  content(field, template)
  return encoded(field, template)
}

function encoded(field: string, job: JobContent<unknown>): Uint8Array {
  if (job.holdWhenCancelled) draft.number(0x68, 1)
  if (job.payload !== undefined) {
    const value = encodePresent(`${field}.payload`, job.payload)
    const length = Buffer.byteLength(value)
    if (length > PAYLOAD_MAX) throw tooLarge(`${field}.payload`, 'must be at most 256 KiB')
    draft.field(0x12, value, length)
  }
  return draft.buffer.subarray(0, draft.position)
}

function content(field: string, job: JobContent<unknown>): void {
  if (job.delay !== undefined) {
    if (job.dueAt !== undefined) throw badField(`${field}.delay`, 'cannot be given with `due_at`')
    draft.span(0x1a, wait(`${field}.delay`, typeof job.delay === 'number' && job.delay < 0 ? 0 : job.delay, LATEST_MS))
  } else if (job.dueAt !== undefined) draft.span(0x22, instant(`${field}.due_at`, job.dueAt))
  if (job.priority !== undefined) draft.number(0x28, count(`${field}.priority`, job.priority, 0, 8191))
  if (job.group !== undefined) draft.text(0x32, job.group, textBytes(`${field}.group`, job.group))
  if (job.retry !== undefined) draft.bytes(0x3a, encodeRetry(`${field}.retry`, job.retry))
  if (job.deadline !== undefined) {
    if (job.deadlineIn !== undefined) throw badField(`${field}.deadline`, 'cannot be given with `deadline_in`')
    draft.span(0x42, instant(`${field}.deadline`, job.deadline))
  } else if (job.deadlineIn !== undefined) draft.span(0x4a, wait(`${field}.deadline_in`, job.deadlineIn, LATEST_MS))
  if (job.cap !== undefined) draft.bytes(0x52, encodeCap(`${field}.cap`, job.cap))
}

/** RetryPolicy. */
export function encodeRetry(field: string, retry: RetryPolicy): Buffer {
  checkKnown(field, retry, RETRY)
  part.begin()
  if (retry.maxAttempts !== undefined) part.number(0x08, count(`${field}.max_attempts`, retry.maxAttempts, 1, 1000))
  if (retry.base !== undefined) part.span(0x12, wait(`${field}.base`, retry.base, DAY_MS, 1))
  // Also 0 is said: the queue's own may be another.
  if (retry.jitterPercent !== undefined) part.head(0x18, count(`${field}.jitter_percent`, retry.jitterPercent, 0, 100))
  return part.take()
}

function encodeCap(field: string, cap: CapGate): Buffer {
  checkKnown(field, cap, CAP)
  const policies = typeof cap.policies === 'string' ? [cap.policies] : cap.policies
  if (!Array.isArray(policies) || policies.length < 1 || policies.length > 8) throw badField(`${field}.policies`, 'must be 1..8')
  part.begin()
  policies.forEach((name: string, n) => {
    if (policies.indexOf(name) < n) throw badField(`${field}.policies[${n}]`, 'is there twice')
    part.text(0x0a, name, textBytes(`${field}.policies[${n}]`, name))
  })
  if (cap.recipient !== undefined) part.text(0x12, cap.recipient, textBytes(`${field}.recipient`, cap.recipient))
  if (cap.sender !== undefined) part.text(0x1a, cap.sender, textBytes(`${field}.sender`, cap.sender))
  if (cap.n !== undefined) part.number(0x20, count(`${field}.n`, cap.n, 1, 1_000_000))
  return part.take()
}

/** Whole milliseconds of a duration that may be 0. @throws BadRequestError */
export function wait(field: string, value: Duration, most: number, least = 0): number {
  const ms = inMilliseconds(value)
  if (Number.isInteger(ms) && ms >= least && ms <= most) return ms
  const limit = most === LATEST_MS ? 'until the end of 9999' : most === LONGEST_MS ? '≤ 400 days' : `≤ ${most} ms`
  throw badField(field, `must be whole milliseconds, or a text such as '20s': ≥ ${least} ms, ${limit}`)
}

/** Milliseconds since the epoch; what is before it counts as long past. @throws BadRequestError */
export function instant(field: string, value: Date): number {
  const ms = value instanceof Date ? value.getTime() : Number.NaN
  if (ms <= LATEST_MS) return Math.max(0, ms)
  throw badField(field, 'must be a valid Date, until the end of the year 9999')
}
