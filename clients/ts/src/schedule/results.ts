// What came of a call on jobs.

import type { Duration } from '../options.js'
import type { Value } from '../value.js'
import type { RetryPolicy } from './spec.js'

/**
 * Where a job stands. `scheduled`: due later, or waiting for its next attempt or for a cap. `ready`: the next worker gets it.
 * `waiting`: behind others of its group. `leased`: a worker has it. `done`, `dead` (given up), `cancelled`: it has ended.
 */
export type JobState = 'scheduled' | 'ready' | 'waiting' | 'leased' | 'done' | 'dead' | 'cancelled'

/**
 * Why a job is dead. `attempts`: all failed, or their workers died. `failed`: its worker said so (FailJob). `expired`: not started by its
 * deadline. `capNever`: it asks for more than its cap ever gives. `capConfig`: there is no such cap policy.
 */
export type DeadReason = 'attempts' | 'failed' | 'expired' | 'capNever' | 'capConfig'

interface Stored {
  readonly id: string
  /** The job's number in its queue: rising, never used twice. */
  readonly number: number
  /** As it is stored now. */
  readonly state: JobState
  /** As it is stored now. */
  readonly dueAt: Date | undefined
  /** An earlier try of this very call had done it. */
  readonly replayed: boolean
}

/**
 * What became of one job; never silent. `created`: it is there now. `existing`: one of this id is there and stays as it is. `replaced`,
 * `rescheduled`: what `onConflict` asked for was done. `alreadyFinished`: one of this id has ended, and its unique window has not.
 */
export type EnqueueResult =
  | (Stored & { readonly outcome: 'created' | 'existing' | 'replaced' | 'rescheduled'; readonly finishedAt?: undefined })
  | (Stored & { readonly outcome: 'alreadyFinished'; readonly finishedAt: Date | undefined })

/** What became of one message. `existing`: seen before, its job has not ended. `alreadyFinished`: seen before, its job has. */
export type IngestResult =
  | (Stored & { readonly outcome: 'created' | 'existing'; readonly finishedAt?: undefined })
  | (Stored & { readonly outcome: 'alreadyFinished'; readonly finishedAt: Date | undefined })

/** What became of another due time. `leased`: a worker has it, nothing was changed. */
export type RescheduleResult =
  | { readonly outcome: 'rescheduled'; readonly state: JobState; readonly dueAt: Date | undefined }
  | { readonly outcome: 'leased' }
  | { readonly outcome: 'alreadyFinished'; readonly state: JobState; readonly finishedAt: Date | undefined }
  | { readonly outcome: 'notFound' }

/**
 * What became of a cancellation. `cancelled`: it will not run (also: was cancelled before). `cancelRequested`: a worker has it; its
 * signal aborts. `alreadyFinished`: done or dead.
 */
export interface CancelResult {
  readonly outcome: 'cancelled' | 'cancelRequested' | 'alreadyFinished' | 'notFound'
}

/** A job as it is stored. */
export interface JobInfo<Payload = Value, Result = Value> {
  readonly queue: string
  readonly id: string
  readonly number: number
  readonly state: JobState
  readonly priority: number
  readonly group: string | undefined
  /** Counted so far, a running one included. */
  readonly attempts: number
  readonly maxAttempts: number
  /** `scheduled`: when the next attempt begins; else when it was due. */
  readonly dueAt: Date | undefined
  readonly createdAt: Date | undefined
  /** Of one that is leased. */
  readonly leaseUntil: Date | undefined
  /** Of one that has ended. */
  readonly finishedAt: Date | undefined
  readonly deadline: Date | undefined
  readonly deadReason: DeadReason | undefined
  /** Of the last failed attempt. */
  readonly error: string | undefined
  readonly progress: Value | undefined
  readonly cancelRequested: boolean
  /** Undefined where there is none, or where it was not asked for. */
  readonly payload: Payload | undefined
  /** What the worker gave. The same. */
  readonly result: Result | undefined
}

/** At most `max` starts in any interval of `duration`. */
export interface Limiter {
  /** 1..10 000; 0 takes the limiter away. */
  max: number
  /** 1 ms..24 h. */
  duration?: Duration
}

/** How long jobs stay that have ended; age or count, whichever is reached first. */
export interface Retention {
  /** Done and cancelled: default 1 h; ≤ 400 days. */
  doneAge?: Duration
  /** Default 1 000; ≤ 10 000 000. */
  doneCount?: number
  /** Default 14 days; ≤ 400 days. */
  deadAge?: Duration
  /** Default 5 000; ≤ 10 000 000. */
  deadCount?: number
}

/** What can be set of a queue. What is not given stays as it is. */
export interface QueueSettings {
  limiter?: Limiter
  /** Jobs running at once over all workers: 1..100 000; 0: no bound. */
  concurrency?: number
  retention?: Retention
  /** For jobs that bring none. */
  retry?: RetryPolicy
  /** A job of a group that is due later does not hold up those behind it. */
  skipDelayed?: boolean
}

/** A queue. */
export interface QueueInfo {
  readonly queue: string
  readonly counts: {
    readonly scheduled: number
    readonly ready: number
    readonly waiting: number
    readonly leased: number
    /** Cancelled ones among them. */
    readonly done: number
    readonly dead: number
    readonly crons: number
    /** Groups with jobs that have not ended. */
    readonly groups: number
  }
  /** Since it came into being. */
  readonly totals: {
    readonly created: number
    readonly leased: number
    readonly done: number
    readonly dead: number
    readonly retried: number
    readonly released: number
    readonly leasesLost: number
    readonly cancelled: number
  }
  readonly paused: boolean
  /** Undefined: until `resume`, if it is paused. */
  readonly pausedUntil: Date | undefined
  /** How long the job that is first in turn has been due. */
  readonly latenessMs: number
  /** When the next scheduled job is due. */
  readonly nextDueAt: Date | undefined
  /** All of them, as they are now. */
  readonly settings: QueueSettings
}
