// Adding jobs, on the wire: requests, and their answers read by hand. What comes a thousand times a second goes this way.

import { randomUUID } from 'node:crypto'
import { tooLarge } from '../errors.js'
import { ScheduleServiceService } from '../gen/pannier/v1/schedule.js'
import { batchSize, textBytes } from '../limits.js'
import { firsts, outcome, present, readTime } from '../pipe/answers.js'
import type { Method } from '../pipe/call.js'
import { Draft } from '../pipe/draft.js'
import { fieldSize, type Reader } from '../stream/wire.js'
import type { EnqueueResult, IngestResult, JobState } from './results.js'
import { encodeIngested, encodeJob, type IngestItem, type JobOptions } from './spec.js'

const OUTCOMES = ['created', 'existing', 'replaced', 'rescheduled', 'alreadyFinished'] as const
export const STATES = ['scheduled', 'ready', 'waiting', 'leased', 'done', 'dead', 'cancelled'] as const satisfies readonly JobState[]
const BATCH_MAX = 1000
const INGEST_MAX = 100
/** What one message may have. */
const MESSAGE_MAX = 4 * 1024 * 1024 - 1024

const draft = new Draft()

function begin(namespace: string, queue: string): void {
  const length = textBytes('queue', queue)
  draft.begin()
  draft.text(0x0a, namespace)
  draft.text(0x12, queue, length)
}

/** EnqueueRequest. */
export function encodeEnqueue(namespace: string, queue: string, job: JobOptions<unknown>): Buffer {
  const spec = encodeJob('job', job)
  begin(namespace, queue)
  draft.text(0x1a, randomUUID(), 36)
  // Also an empty one: a job may have nothing.
  draft.field(0x22, spec, spec.length)
  return draft.take()
}

/** EnqueueBatchRequest. */
export function encodeBatch(namespace: string, queue: string, jobs: readonly JobOptions<unknown>[]): Buffer {
  batchSize('jobs', jobs.length, BATCH_MAX)
  begin(namespace, queue)
  draft.text(0x1a, randomUUID(), 36)
  jobs.forEach((job, n) => {
    const spec = encodeJob(`jobs[${n}]`, job)
    draft.field(0x22, spec, spec.length)
  })
  if (draft.position > MESSAGE_MAX) throw tooLarge('jobs', 'must be at most 4 MiB in all')
  return draft.take()
}

/** IngestRequest. */
export function encodeIngest(namespace: string, queue: string, items: readonly IngestItem<unknown>[]): Buffer {
  batchSize('items', items.length, INGEST_MAX)
  begin(namespace, queue)
  items.forEach((item, n) => {
    const key = textBytes(`items[${n}].dedup_key`, item.dedupKey)
    const spec = encodeIngested(`items[${n}].job`, item)
    draft.head(0x1a, fieldSize(key) + fieldSize(spec.length))
    draft.field(0x0a, item.dedupKey, key)
    draft.field(0x12, spec, spec.length)
  })
  if (draft.position > MESSAGE_MAX) throw tooLarge('items', 'must be at most 4 MiB in all')
  return draft.take()
}

export const ENQUEUE: Method<EnqueueResult> = {
  field: 17, what: 'adding a job', writes: true,
  decode: reader => present(enqueuedAll(reader)[0], 'job'),
}

export const INGEST: Method<IngestResult[]> = {
  field: 18, what: 'taking messages in', writes: true,
  decode: reader => enqueuedAll(reader) as IngestResult[],
}

/** EnqueueBatch, its request encoded by `encodeBatch`. */
export const ENQUEUE_BATCH = {
  path: ScheduleServiceService.enqueueBatch.path,
  requestSerialize: (request: Buffer): Buffer => request,
  responseDeserialize: (answer: Buffer): Buffer => answer,
}

/** EnqueueResponse, EnqueueBatchResponse and IngestResponse: what became of each is their field 1. */
export function enqueuedAll(reader: Reader): EnqueueResult[] {
  return firsts(reader, field => enqueued(field.enter()))
}

function enqueued(reader: Reader): EnqueueResult {
  let what = 0
  let id = ''
  let number = 0
  let state = 0
  let dueAt: Date | undefined
  let finishedAt: Date | undefined
  let replayed = false
  while (reader.at < reader.end) {
    const tag = reader.varint()
    switch (tag) {
      case 0x08: what = reader.varint(); break
      case 0x12: id = reader.string(); break
      case 0x18: number = reader.varint(); break
      case 0x20: state = reader.varint(); break
      case 0x2a: dueAt = readTime(reader); break
      case 0x32: finishedAt = readTime(reader); break
      case 0x38: replayed = reader.varint() !== 0; break
      default: reader.skip(tag)
    }
  }
  const name = outcome(OUTCOMES, what)
  const stored = { id, number, state: outcome(STATES, state), dueAt, replayed }
  return name === 'alreadyFinished' ? { outcome: name, ...stored, finishedAt } : { outcome: name, ...stored }
}
