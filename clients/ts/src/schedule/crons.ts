// Recurring jobs. The sidecar fires them: no process of yours has to be up for that.

import type { Connection } from '../connection.js'
import { fromDuration, toDuration } from '../duration.js'
import { badField, makeError } from '../errors.js'
import { JobSpec, Misfire, Overlap, ScheduleServiceService as Service, type Cron as WireCron, type CronInfo as WireInfo } from '../gen/pannier/v1/schedule.js'
import { LONGEST_MS, numberOf, textBytes } from '../limits.js'
import { checkKnown, milliseconds, type Duration } from '../options.js'
import { pages } from '../pages.js'
import { outcome, present } from '../pipe/answers.js'
import { decodePresent, type Value } from '../value.js'
import { encodeTemplate, wait, type JobContent } from './spec.js'

/** A recurring job. Its jobs have the ids `<cron id>@<instant>`. */
export interface CronOptions<Payload = Value> {
  /** Unique in its queue. */
  id: string
  /**
   * Five fields (minute, hour, day of month, month, day of week), six with seconds in front; L, W, # and names are known. Either this
   * or `every`.
   */
  pattern?: string
  /** 1 s..400 days. Fires at multiples since 1970-01-01T00:00Z. */
  every?: Duration
  /**
   * IANA name, default UTC; not with `every`. A local time that a clock change leaves out fires right after the gap; one that comes
   * twice fires the first time only.
   */
  timeZone?: string
  /** Of what was missed by more than a minute because everything was down: `fireOnce` (default) one job for all, `skip` none. */
  misfire?: 'fireOnce' | 'skip'
  /** While the job of the occurrence before has not ended: `skip` (default) leaves this one out, `allow` adds it. */
  overlap?: 'skip' | 'allow'
  /** What each occurrence adds. */
  template?: Omit<JobContent<Payload>, 'delay' | 'dueAt'>
}

/** What became of it. `unchanged`: it was there as given. */
export interface CronResult {
  readonly outcome: 'created' | 'updated' | 'unchanged'
  /** The next time. */
  readonly nextAt: Date | undefined
}

/** A recurring job as it is stored. */
export interface CronInfo<Payload = Value> {
  readonly id: string
  readonly pattern: string | undefined
  readonly everyMs: number | undefined
  readonly timeZone: string | undefined
  readonly misfire: 'fireOnce' | 'skip'
  readonly overlap: 'skip' | 'allow'
  readonly payload: Payload | undefined
  readonly group: string | undefined
  readonly priority: number
  readonly nextAt: Date | undefined
  /** The next ones, as many as were asked for. */
  readonly occurrences: readonly Date[]
  /** The last one that made a job. */
  readonly lastAt: Date | undefined
}

const OUTCOMES = ['created', 'updated', 'unchanged'] as const
const KNOWN = ['id', 'pattern', 'every', 'timeZone', 'misfire', 'overlap', 'template'] as const
const MISFIRES = ['fireOnce', 'skip'] as const
const OVERLAPS = ['skip', 'allow'] as const

/** See the top of this file. Errors as of `Schedule`. */
export class Crons {
  /** @internal */
  constructor(
    private readonly connection: Connection,
    private readonly namespace: string,
    private readonly timeoutMs: number,
  ) {}

  /**
   * Sets a recurring job: safe at every start of the process, the same again changes nothing. A change holds from the next occurrence
   * on. A pattern that never fires → BadRequestError.
   */
  async upsert<Payload = Value>(queue: string, cron: CronOptions<Payload>, options: { timeout?: Duration } = {}): Promise<CronResult> {
    checkKnown('cron.upsert', options, ['timeout'])
    textBytes('queue', queue)
    const request = { namespace: this.namespace, queue, cron: fromCron(cron) }
    const answer = await this.connection.unary(Service.upsertCron, request, milliseconds('cron.upsert: timeout', options.timeout, this.timeoutMs))
    return { outcome: outcome(OUTCOMES, answer.outcome), nextAt: answer.nextAt }
  }

  /** Ends a recurring job; the jobs it made stay. False: there was none. */
  async delete(queue: string, id: string, options: { timeout?: Duration } = {}): Promise<boolean> {
    checkKnown('cron.delete', options, ['timeout'])
    textBytes('queue', queue)
    textBytes('id', id)
    return (await this.connection.unary(Service.deleteCron, { namespace: this.namespace, queue, id }, milliseconds('cron.delete: timeout', options.timeout, this.timeoutMs))).deleted
  }

  /** The recurring jobs of a queue. `occurrences`: so many times to come of each, 0..20, default 1. @throws CorruptRecordError */
  async *list<Payload = Value>(queue: string, options: { occurrences?: number } = {}): AsyncGenerator<CronInfo<Payload>, void, undefined> {
    checkKnown('cron.list', options, ['occurrences'])
    textBytes('queue', queue)
    const which = { namespace: this.namespace, queue, limit: 100, occurrences: options.occurrences ?? 1 }
    for await (const page of pages(cursor => this.connection.unary(Service.listCrons, { ...which, cursor }, this.timeoutMs))) {
      for (const cron of page.crons) yield toCron(cron)
      if (page.corrupt > 0) throw makeError({ code: 'DATA_LOSS', reason: 'CORRUPT_RECORD', message: `${page.corrupt} crons cannot be opened`, metadata: { type: 'cron' } })
    }
  }
}

function fromCron(cron: CronOptions<unknown>): WireCron {
  checkKnown('cron', cron, KNOWN)
  textBytes('cron.id', cron.id)
  if ((cron.pattern === undefined) === (cron.every === undefined)) throw badField('cron.pattern', 'either `pattern` or `every` must be given')
  if (cron.every !== undefined && cron.timeZone !== undefined) throw badField('cron.time_zone', 'cannot be given with `every`')
  if (cron.pattern !== undefined) textBytes('cron.pattern', cron.pattern, 256)
  const misfire = numberOf('cron.misfire', MISFIRES, cron.misfire ?? 'fireOnce')
  const overlap = numberOf('cron.overlap', OVERLAPS, cron.overlap ?? 'skip')
  return {
    id: cron.id,
    rule: cron.pattern !== undefined ? { $case: 'pattern', value: cron.pattern } : { $case: 'every', value: toDuration(wait('cron.every', cron.every ?? 0, LONGEST_MS, 1000)) },
    timeZone: cron.timeZone ?? '',
    misfire, overlap,
    template: JobSpec.decode(encodeTemplate('cron.template', cron.template ?? {})),
  }
}

function toCron<P>({ cron: stored, nextAt, occurrences, lastAt }: WireInfo): CronInfo<P> {
  const { id, rule, timeZone, misfire, overlap, template } = present(stored, 'cron')
  return {
    id,
    pattern: rule?.$case === 'pattern' ? rule.value : undefined,
    everyMs: rule?.$case === 'every' ? fromDuration(rule.value) : undefined,
    timeZone: timeZone || undefined,
    misfire: misfire === Misfire.MISFIRE_SKIP ? 'skip' : 'fireOnce',
    overlap: overlap === Overlap.OVERLAP_ALLOW ? 'allow' : 'skip',
    payload: template && (decodePresent(template.payload) as P | undefined),
    group: template?.group || undefined,
    priority: template?.priority ?? 0,
    nextAt, occurrences, lastAt,
  }
}
