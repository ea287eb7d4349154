// Jobs: added, looked at, taken back. Who runs them is in ../worker.

import type { MethodDefinition } from '@grpc/grpc-js'
import type { Connection } from '../connection.js'
import { toDuration } from '../duration.js'
import { badField, DeadlineExceededError, makeError, NotFoundError, UnavailableError } from '../errors.js'
import { ScheduleServiceService as Service, Enqueued_Outcome, type Enqueued } from '../gen/pannier/v1/schedule.js'
import { LATEST_MS, numberOf, span, textBytes } from '../limits.js'
import { checkKnown, inMilliseconds, type Duration } from '../options.js'
import { pages } from '../pages.js'
import { outcome, present } from '../pipe/answers.js'
import type { Pipe } from '../pipe/pipe.js'
import { unclear } from '../stream/requests.js'
import { Reader } from '../stream/wire.js'
import type { Value } from '../value.js'
import { ENQUEUE, ENQUEUE_BATCH, encodeBatch, encodeEnqueue, encodeIngest, enqueuedAll, INGEST, STATES } from './codec.js'
import { fromSettings, toJob, toQueue, toSettings } from './convert.js'
import { Crons } from './crons.js'
import type { CancelResult, EnqueueResult, IngestResult, JobInfo, JobState, QueueInfo, QueueSettings, RescheduleResult } from './results.js'
import { instant, wait, type IngestItem, type JobOptions } from './spec.js'
import { watchQueue, type QueueEvent } from './watch.js'

/** Of one call. */
export interface CallOptions {
  /** Retries included. Default that of `connect`. */
  timeout?: Duration
}

/** Which dead jobs. */
export type DeadSelection = { readonly ids: readonly string[] } | { readonly all: true; readonly since?: Date }

const CANCEL_OUTCOMES = ['cancelled', 'cancelRequested', 'alreadyFinished', 'notFound'] as const
const IDS_MAX = 500
const NO_OPTIONS: Readonly<CallOptions> = {}

/**
 * Jobs. Queues, ids and groups: 1..512 bytes of UTF-8, any characters; a queue comes into being with its first use. All times are by
 * the server's clock. A "no" is an outcome; an error means that it could not be decided: BadRequestError, TooLargeError,
 * UnavailableError, DeadlineExceededError, ExhaustedError (Valkey is full; nothing was written), CorruptRecordError, KeyMismatchError.
 */
export class Schedule {
  /** Recurring jobs. */
  readonly cron: Crons
  readonly #pipe: Pipe
  readonly #connection: Connection
  readonly #namespace: string

  /** @internal */
  constructor(pipe: Pipe, connection: Connection, namespace: string) {
    this.#pipe = pipe
    this.#connection = connection
    this.#namespace = namespace
    this.cron = new Crons(connection, namespace, pipe.timeoutMs)
  }

  /**
   * Adds a job. With an `id` it is added once however often this is called, until 7 days (`uniqueWindow`) after it has ended: so a
   * redeploy, a retry or two processes cannot send a reminder twice.
   */
  async enqueue<Payload = Value>(queue: string, job: JobOptions<Payload>, options: CallOptions = NO_OPTIONS): Promise<EnqueueResult> {
    checkKnown('enqueue', options, TIMEOUT)
    const body = encodeEnqueue(this.#namespace, queue, job)
    return this.#pipe.call(ENQUEUE, body, this.#pipe.timeout('enqueue', options.timeout))
  }

  /** Adds 1..1 000 jobs, ≤ 4 MiB in all; each is decided by itself, in this order. The answers are in the order of `jobs`. */
  async enqueueBatch<Payload = Value>(queue: string, jobs: readonly JobOptions<Payload>[], options: CallOptions = NO_OPTIONS): Promise<EnqueueResult[]> {
    checkKnown('enqueueBatch', options, TIMEOUT)
    const body = encodeBatch(this.#namespace, queue, jobs)
    const answer = await written(this.#connection.unary(ENQUEUE_BATCH, body, this.#pipe.timeout('enqueueBatch', options.timeout)))
    return enqueuedAll(new Reader(answer))
  }

  /**
   * Takes in 1..100 messages of a webhook: seen before or not, and the job, in one write. A message that comes again becomes no second
   * job while its job has not ended, nor until 8 days after it was first seen; whatever is killed in between. Answer the webhook after it.
   */
  async ingest<Payload = Value>(queue: string, items: readonly IngestItem<Payload>[], options: CallOptions = NO_OPTIONS): Promise<IngestResult[]> {
    checkKnown('ingest', options, TIMEOUT)
    const body = encodeIngest(this.#namespace, queue, items)
    return this.#pipe.call(INGEST, body, this.#pipe.timeout('ingest', options.timeout))
  }

  /** One job, with payload and result; undefined if there is none (any more). */
  async get<Payload = Value, Result = Value>(queue: string, id: string, options: CallOptions = NO_OPTIONS): Promise<JobInfo<Payload, Result> | undefined> {
    const answer = await found(this.#unary('get', Service.getJob, { ...this.#queue(queue), id: named(id) }, options))
    return answer && toJob<Payload, Result>(present(answer.job, 'job'))
  }

  /**
   * Jobs of one state: `scheduled` by due time, `ready` by turn, `leased` by the end of the lease, those that ended the newest first.
   * What changes meanwhile may be missed or come twice. `withPayload`: with payload and result.
   */
  async *list<Payload = Value, Result = Value>(queue: string, state: JobState, options: { withPayload?: boolean } = {}): AsyncGenerator<JobInfo<Payload, Result>, void, undefined> {
    checkKnown('list', options, ['withPayload'])
    const which = { ...this.#queue(queue), state: numberOf('state', STATES, state), limit: 0, withPayload: options.withPayload ?? false }
    for await (const page of pages(cursor => this.#connection.unary(Service.listJobs, { ...which, cursor }, this.#pipe.timeoutMs))) {
      for (const job of page.jobs) yield toJob<Payload, Result>(job)
      if (page.corrupt > 0) throw corrupt(page.corrupt, 'job')
    }
  }

  /** A queue with its counts and settings; undefined if nothing ever was in it. */
  async getQueue(queue: string, options: CallOptions = NO_OPTIONS): Promise<QueueInfo | undefined> {
    const answer = await this.#unary('getQueue', Service.getQueue, this.#queue(queue), options)
    return answer.exists && answer.queue ? toQueue(answer.queue) : undefined
  }

  /** The queues of the namespace, in no order. */
  async *queues(): AsyncGenerator<QueueInfo, void, undefined> {
    const read = (cursor: string) => this.#connection.unary(Service.listQueues, { namespace: this.#namespace, cursor, limit: 0 }, this.#pipe.timeoutMs)
    for await (const page of pages(read)) {
      for (const queue of page.queues) yield toQueue(queue)
      if (page.corrupt > 0) throw corrupt(page.corrupt, 'queue')
    }
  }

  /** Takes a job back: at once if no worker has it; else the worker's signal aborts. */
  async cancel(queue: string, id: string, options: CallOptions = NO_OPTIONS): Promise<CancelResult> {
    const answer = await this.#write('cancel', Service.cancelJob, { ...this.#queue(queue), id: named(id) }, options)
    return { outcome: outcome(CANCEL_OUTCOMES, answer.outcome) }
  }

  /** Another due time, for a job that no worker has and that has not ended: a Date, or a time from now. */
  async reschedule(queue: string, id: string, when: Date | Duration, options: CallOptions = NO_OPTIONS): Promise<RescheduleResult> {
    const to = when instanceof Date
      ? ({ $case: 'dueAt', value: new Date(instant('due_at', when)) } as const)
      : ({ $case: 'delay', value: toDuration(inMilliseconds(when) < 0 ? 0 : wait('delay', when, LATEST_MS)) } as const)
    const answer = await found(this.#write('reschedule', Service.rescheduleJob, { ...this.#queue(queue), id: named(id), when: to }, options))
    return rescheduled(answer?.job)
  }

  /** Makes a scheduled job due now. Behind others of its group it still waits. */
  async promote(queue: string, id: string, options: CallOptions = NO_OPTIONS): Promise<RescheduleResult> {
    const answer = await found(this.#write('promote', Service.promoteJob, { ...this.#queue(queue), id: named(id) }, options))
    return rescheduled(answer?.job)
  }

  /** Gives dead jobs a new life, with all their attempts: `{ ids }` (≤ 500), or `{ all: true, since }`. Gives how many. */
  async retryDead(queue: string, which: DeadSelection, options: CallOptions = NO_OPTIONS): Promise<number> {
    return Number((await this.#write('retryDead', Service.retryDead, { ...this.#queue(queue), ...dead('retryDead', which) }, options)).retried)
  }

  /** Removes dead jobs and frees their ids: the same. */
  async deleteDead(queue: string, which: DeadSelection, options: CallOptions = NO_OPTIONS): Promise<number> {
    return Number((await this.#write('deleteDead', Service.deleteDead, { ...this.#queue(queue), ...dead('deleteDead', which) }, options)).deleted)
  }

  /** Sets what is given of a queue's settings, for all its workers at once; the rest stays. Gives all of them. */
  async configureQueue(queue: string, settings: QueueSettings, options: CallOptions = NO_OPTIONS): Promise<QueueSettings> {
    const request = { ...this.#queue(queue), settings: fromSettings(settings) }
    return toSettings((await this.#write('configureQueue', Service.configureQueue, request, options)).settings)
  }

  /** No job starts until `resume`, or for so long (`for`: ≤ 400 days). What runs goes on. Gives until when, if it ends by itself. */
  async pause(queue: string, options: CallOptions & { for?: Duration } = {}): Promise<{ pausedUntil: Date | undefined }> {
    checkKnown('pause', options, ['for', 'timeout'])
    const ms = span('for', options.for)
    const request = { ...this.#queue(queue), for: toDuration(ms) }
    const answer = await written(this.#connection.unary(Service.pauseQueue, request, this.#pipe.timeout('pause', options.timeout)))
    return { pausedUntil: answer.pausedUntil }
  }

  /** Ends a pause. False: there was none. */
  async resume(queue: string, options: CallOptions = NO_OPTIONS): Promise<boolean> {
    return (await this.#write('resume', Service.resumeQueue, this.#queue(queue), options)).resumed
  }

  /**
   * Removes jobs: those of `states`, default scheduled, ready and waiting. Of `leased` the workers are asked to cancel. `confirm`: the
   * queue's name once more. A large queue takes a while: give a `timeout`; what it had not reached by then stays.
   */
  async purge(queue: string, options: CallOptions & { confirm: string; states?: readonly JobState[] }): Promise<{ removed: number; cancelRequested: number }> {
    checkKnown('purge', options, ['confirm', 'states', 'timeout'])
    if (options.confirm !== queue) throw badField('confirm', "must be the queue's name")
    const states = (options.states ?? []).map((state, n) => numberOf(`states[${n}]`, STATES, state))
    const answer = await written(this.#connection.unary(Service.purgeQueue, { ...this.#queue(queue), confirm: queue, states }, this.#pipe.timeout('purge', options.timeout)))
    return { removed: Number(answer.removed), cancelRequested: Number(answer.cancelRequested) }
  }

  /**
   * What happens in a queue, from now on: `for await (const event of schedule.watch('reminders'))`. It goes on when the stream breaks;
   * where events may be missing, a `resync` says so. Ends with `break`, or when `signal` aborts; with ClosedError when the connection is closed.
   */
  watch(queue: string, options: { signal?: AbortSignal } = {}): AsyncGenerator<QueueEvent, void, undefined> {
    checkKnown('watch', options, ['signal'])
    textBytes('queue', queue)
    return watchQueue(this.#connection, this.#namespace, queue, options.signal)
  }

  #queue(queue: string): { namespace: string; queue: string } {
    textBytes('queue', queue)
    return { namespace: this.#namespace, queue }
  }

  #write<Request, Response>(where: string, method: Unary<Request, Response>, request: Request, options: CallOptions): Promise<Response> {
    return written(this.#unary(where, method, request, options))
  }

  async #unary<Request, Response>(where: string, method: Unary<Request, Response>, request: Request, options: CallOptions): Promise<Response> {
    checkKnown(where, options, TIMEOUT)
    return this.#connection.unary(method, request, this.#pipe.timeout(where, options.timeout))
  }
}

const TIMEOUT = ['timeout'] as const
/** The request may have arrived. */
const NO_ANSWER = new Set(['DEADLINE_EXCEEDED', 'SIDECAR_UNREACHABLE'])

type Unary<Request, Response> = Pick<MethodDefinition<Request, Response>, 'path' | 'requestSerialize' | 'responseDeserialize'>

function named(id: string): string {
  textBytes('id', id)
  return id
}

/** The answer to a write: when none came, it may have been done. */
async function written<T>(answer: Promise<T>): Promise<T> {
  try {
    return await answer
  } catch (error) {
    if (!(error instanceof DeadlineExceededError || error instanceof UnavailableError) || error.outcomeUnknown) throw error
    throw NO_ANSWER.has(error.reason) ? unclear(error) : error
  }
}

/** The answer; undefined when there is no such job. */
async function found<T>(answer: Promise<T>): Promise<T | undefined> {
  try {
    return await answer
  } catch (error) {
    if (error instanceof NotFoundError) return undefined
    throw error
  }
}

function rescheduled(job: Enqueued | undefined): RescheduleResult {
  if (job === undefined) return { outcome: 'notFound' }
  const state = outcome(STATES, job.state)
  if (job.outcome === Enqueued_Outcome.OUTCOME_EXISTING) return { outcome: 'leased' }
  if (job.outcome === Enqueued_Outcome.OUTCOME_ALREADY_FINISHED) return { outcome: 'alreadyFinished', state, finishedAt: job.finishedAt }
  return { outcome: 'rescheduled', state, dueAt: job.dueAt }
}

function dead(where: string, which: DeadSelection): { ids: string[]; all: boolean; since: Date | undefined } {
  checkKnown(where, which, ['ids', 'all', 'since'])
  if ('all' in which) {
    if (which.all !== true || 'ids' in which) throw badField('all', 'must be true, without `ids`')
    return { ids: [], all: true, since: which.since === undefined ? undefined : new Date(instant('since', which.since)) }
  }
  if (which.ids.length === 0 || which.ids.length > IDS_MAX) throw badField('ids', `must be 1..${IDS_MAX}; or give { all: true }`)
  which.ids.forEach((id, n) => textBytes(`ids[${n}]`, id))
  return { ids: [...which.ids], all: false, since: undefined }
}

function corrupt(number: number, type: string): Error {
  return makeError({ code: 'DATA_LOSS', reason: 'CORRUPT_RECORD', message: `${number} of type ${type} cannot be opened`, metadata: { type } })
}
