// Opening: from the Open message to the point where the lease is ours and everything preloaded has come.

import type { Connection } from '../connection.js'
import { fromDuration, toDuration } from '../duration.js'
import { deadlineExceeded, fromStatus, makeError, type PannierError } from '../errors.js'
import { OnHeld, type Attributes, type Durability, type Open, type Opened } from '../gen/pannier/v1/session.js'
import { Attach, type AttachListener } from './attach.js'
import type { Answer, StoredRecord } from './answer-codec.js'
import { Gathered, GRACE_MS, READ_TRY_MS } from './requests.js'

/** What Opened said, and what was preloaded. */
export interface OpenResult {
  fence: number
  revision: number
  incarnation: number
  /** There was no session of this name. */
  created: boolean
  resumed: boolean
  durability: Durability
  /** Records a type, at that moment. */
  counts: ReadonlyMap<string, number>
  lastOpSeq: number
  leaseTtlMs: number
  attributes: Attributes | undefined
  records: StoredRecord[]
  /** `records` are all records of the types asked for. */
  preloadComplete: boolean
}

/** What to open, and how. */
export interface OpenRequest {
  namespace: string
  session: string
  owner: string
  writerId: string
  onHeld: OnHeld
  /** For `ON_HELD_WAIT`. */
  waitMs: number
  leaseTtlMs: number
  minRevision: number
  mustExist: boolean
  resume: { fence: number; revision: number } | undefined
  preloadTypes: readonly string[]
}

/** A type that is asked for only to get an answer. */
const MARKER_TYPE = 'creds'

/**
 * Opens. `adopt` is called in the moment it succeeded, and gives who listens from then on.
 * @throws PannierError
 */
export function openAttach(
  connection: Connection,
  request: OpenRequest,
  timeoutMs: number,
  adopt: (attach: Attach, result: OpenResult) => AttachListener,
): Promise<void> {
  return new Promise((resolve, reject) => {
    let opened: Opened | undefined
    let marker = 0
    const gathered = new Gathered()
    const limit = timeoutMs + (request.onHeld === OnHeld.ON_HELD_WAIT ? request.waitMs : 0)
    const fail = (error: PannierError): void => {
      clearTimeout(timer)
      attach.drop()
      reject(error)
    }
    const finish = (of: Opened): void => {
      clearTimeout(timer)
      attach.listener = adopt(attach, openResult(of, gathered.records))
      resolve()
    }
    const onAnswer = (answer: Answer): void => {
      if (opened && answer.seq === marker) finish(opened)
      else if (answer.case === 'records') gathered.add(answer.value)
      else if (answer.case === 'other' && answer.value?.$case === 'opened') {
        opened = answer.value.value
        if (request.preloadTypes.length === 0 || opened.created) return finish(opened)
        // Replies come in order: with the answer to this, everything preloaded has come, be it nothing.
        marker = attach.nextSeq()
        attach.request(marker, READ_TRY_MS, { $case: 'list', value: { type: MARKER_TYPE, cursor: '', limit: 1, idsOnly: true } })
      } else if (answer.case === 'other' && answer.value?.$case === 'error') {
        fail(fromStatus(answer.value.value))
      }
    }
    const onEnd = (error: PannierError | undefined): void => {
      fail(error ?? makeError({ code: 'UNAVAILABLE', reason: 'DRAINING', message: 'the sidecar ended the stream before it was open' }))
    }
    const attach = new Attach(connection, toOpen(request), timeoutMs, { onAnswer, onEnd })
    const timer = setTimeout(() => fail(deadlineExceeded('opening the session', limit, false)), limit + GRACE_MS)
  })
}

function toOpen(request: OpenRequest): Open {
  const { resume } = request
  return {
    namespace: request.namespace,
    session: request.session,
    owner: request.owner,
    writerId: request.writerId,
    onHeld: request.onHeld,
    waitTimeout: request.onHeld === OnHeld.ON_HELD_WAIT ? toDuration(request.waitMs) : undefined,
    leaseTtl: toDuration(request.leaseTtlMs),
    minRevision: BigInt(request.minRevision),
    mustExist: request.mustExist,
    resume: resume && { fence: BigInt(resume.fence), revision: BigInt(resume.revision) },
    preloadTypes: [...request.preloadTypes],
  }
}

function openResult(opened: Opened, records: StoredRecord[]): OpenResult {
  return {
    fence: Number(opened.fence),
    revision: Number(opened.revision),
    incarnation: Number(opened.incarnation),
    created: opened.created,
    resumed: opened.resumed,
    durability: opened.durability,
    counts: new Map(opened.counts.map(({ type, records: count }) => [type, Number(count)])),
    lastOpSeq: Number(opened.lastOpSeq),
    leaseTtlMs: fromDuration(opened.leaseTtl) ?? 30_000,
    attributes: opened.attributes,
    records,
    preloadComplete: opened.preloadComplete,
  }
}
