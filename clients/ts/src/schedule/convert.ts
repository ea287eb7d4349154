// Jobs and queues as the wire has them, for the calls that are not on the hot path.

import { fromDuration, toDuration } from '../duration.js'
import { badField } from '../errors.js'
import { DeadReason as WireReason, RetryPolicy as WireRetry, type Job as WireJob, type Queue as WireQueue, type QueueSettings as WireSettings } from '../gen/pannier/v1/schedule.js'
import { count, LONGEST_MS, span, WORK_MS } from '../limits.js'
import { checkKnown, type Duration } from '../options.js'
import { outcome } from '../pipe/answers.js'
import { decodePresent } from '../value.js'
import { STATES } from './codec.js'
import type { DeadReason, JobInfo, QueueInfo, QueueSettings } from './results.js'
import { encodeRetry, wait } from './spec.js'

const REASONS = ['attempts', 'failed', 'expired', 'capNever', 'capConfig'] as const satisfies readonly DeadReason[]
const COUNT_MAX = 10_000_000

export function toJob<P, R>(wire: WireJob): JobInfo<P, R> {
  const { queue, id, priority, attempts, maxAttempts, dueAt, createdAt, leaseUntil, finishedAt, deadline, cancelRequested } = wire
  return {
    queue, id, number: Number(wire.number), state: outcome(STATES, wire.state), priority, group: wire.group || undefined, attempts, maxAttempts,
    dueAt, createdAt, leaseUntil, finishedAt, deadline,
    deadReason: wire.deadReason === WireReason.DEAD_REASON_UNSPECIFIED ? undefined : outcome(REASONS, wire.deadReason),
    error: wire.error || undefined, progress: decodePresent(wire.progress), cancelRequested,
    payload: decodePresent(wire.payload) as P | undefined, result: decodePresent(wire.result) as R | undefined,
  }
}

export function toQueue(wire: WireQueue): QueueInfo {
  const counts = numbers(wire.counts, ['scheduled', 'ready', 'waiting', 'leased', 'done', 'dead', 'crons', 'groups'] as const)
  const totals = numbers(wire.totals, ['created', 'leased', 'done', 'dead', 'retried', 'released', 'leasesLost', 'cancelled'] as const)
  const { queue, paused, pausedUntil, nextDueAt } = wire
  return { queue, counts, totals, paused, pausedUntil, latenessMs: fromDuration(wire.lateness) ?? 0, nextDueAt, settings: toSettings(wire.settings) }
}

function numbers<Name extends string>(wire: Readonly<Record<Name, bigint>> | undefined, names: readonly Name[]): Record<Name, number> {
  return Object.fromEntries(names.map(name => [name, Number(wire?.[name] ?? 0n)])) as Record<Name, number>
}

export function toSettings(wire: WireSettings | undefined): QueueSettings {
  if (wire === undefined) return {}
  const { limiter, concurrency, retention, retry, skipDelayed } = wire
  return {
    ...(limiter && { limiter: { max: limiter.max, ...ms('duration', limiter.duration) } }),
    ...(concurrency !== undefined && { concurrency }),
    ...(retention && {
      retention: {
        ...ms('doneAge', retention.doneAge), ...(retention.doneCount !== undefined && { doneCount: retention.doneCount }),
        ...ms('deadAge', retention.deadAge), ...(retention.deadCount !== undefined && { deadCount: retention.deadCount }),
      },
    }),
    ...(retry && {
      retry: { maxAttempts: retry.maxAttempts, ...ms('base', retry.base), ...(retry.jitterPercent !== undefined && { jitterPercent: retry.jitterPercent }) },
    }),
    ...(skipDelayed !== undefined && { skipDelayed }),
  }
}

function ms<Name extends string>(name: Name, value: Parameters<typeof fromDuration>[0]): Partial<Record<Name, number>> {
  const known = fromDuration(value)
  return known === undefined ? {} : ({ [name]: known } as Record<Name, number>)
}

/** @throws BadRequestError, TypeError */
export function fromSettings(settings: QueueSettings): WireSettings {
  checkKnown('configureQueue', settings, ['limiter', 'concurrency', 'retention', 'retry', 'skipDelayed'])
  const { limiter, concurrency, retention, retry, skipDelayed } = settings
  if (limiter) checkKnown('configureQueue: limiter', limiter, ['max', 'duration'])
  if (retention) checkKnown('configureQueue: retention', retention, ['doneAge', 'doneCount', 'deadAge', 'deadCount'])
  if (limiter && limiter.max !== 0 && limiter.duration === undefined) throw badField('settings.limiter.duration', 'must be given: 1 ms..24 h')
  const age = (field: string, value: Duration | undefined): ReturnType<typeof toDuration> | undefined =>
    value === undefined ? undefined : toDuration(wait(field, value, LONGEST_MS))
  const most = (field: string, value: number | undefined): number | undefined => (value === undefined ? undefined : count(field, value, 0, COUNT_MAX))
  return {
    limiter: limiter && {
      max: count('settings.limiter.max', limiter.max, 0, 10_000),
      duration: toDuration(span('settings.limiter.duration', limiter.duration, WORK_MS)),
    },
    concurrency: concurrency === undefined ? undefined : count('settings.concurrency', concurrency, 0, 100_000),
    retention: retention && {
      doneAge: age('settings.retention.done_age', retention.doneAge), doneCount: most('settings.retention.done_count', retention.doneCount),
      deadAge: age('settings.retention.dead_age', retention.deadAge), deadCount: most('settings.retention.dead_count', retention.deadCount),
    },
    retry: retry && WireRetry.decode(encodeRetry('settings.retry', retry)),
    skipDelayed,
  }
}
