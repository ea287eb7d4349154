// Claims on the wire: requests, and their answers read by hand.

import { badField, tooLarge } from '../errors.js'
import { batchSize, span, textBytes, WORK_MS } from '../limits.js'
import type { Duration } from '../options.js'
import { firsts, outcome, readSpan, readTime } from '../pipe/answers.js'
import type { Method } from '../pipe/call.js'
import { Draft } from '../pipe/draft.js'
import type { Reader } from '../stream/wire.js'
import { encodePresent, type Value } from '../value.js'

/** A claim's answer as it came. */
export interface ClaimAnswer {
  outcome: 'new' | 'takeover' | 'inProgress' | 'duplicate' | 'mismatch'
  fence: number
  retryAfterMs: number
  result: Buffer | undefined
  expiresAt: Date | undefined
  replayed: boolean
}

/** The options of a claim as the wire wants them. */
export interface ClaimTerms {
  inProgressMs: number | undefined
  retentionMs: number | undefined
  complete: boolean
}

const CLAIM_OUTCOMES = ['new', 'takeover', 'inProgress', 'duplicate', 'mismatch'] as const
const COMPLETE_OUTCOMES = ['completed', 'leaseLost'] as const
const EXTEND_OUTCOMES = ['extended', 'leaseLost'] as const
const RELEASE_OUTCOMES = ['released', 'leaseLost'] as const
const RESULT_MAX = 4096
const FINGERPRINT_MAX = 512
const BATCH_MAX = 100

const draft = new Draft()

/** Bytes of a fingerprint. @throws BadRequestError */
export function fingerprintBytes(field: string, value: string | Uint8Array | undefined): Uint8Array {
  if (value === undefined) return NONE
  const bytes = typeof value === 'string' ? Buffer.from(value) : value
  if (!(bytes instanceof Uint8Array)) throw badField(field, 'must be a text or bytes')
  if (bytes.length > FINGERPRINT_MAX) throw badField(field, `must be at most ${FINGERPRINT_MAX} bytes`)
  return bytes
}

/** The times of a claim. @throws BadRequestError */
export function terms(inProgressTtl: Duration | undefined, retention: Duration | undefined, complete: boolean): ClaimTerms {
  return { inProgressMs: span('in_progress_ttl', inProgressTtl, WORK_MS), retentionMs: span('retention', retention), complete }
}

/** ClaimRequest. */
export function encodeClaim(namespace: string, key: string, fingerprint: string | Uint8Array | undefined, how: ClaimTerms): Buffer {
  const length = textBytes('key', key)
  const print = fingerprintBytes('fingerprint', fingerprint)
  draft.request(namespace)
  draft.text(0x1a, key, length)
  draft.bytes(0x22, print)
  draft.span(0x2a, how.inProgressMs)
  draft.span(0x32, how.retentionMs)
  if (how.complete) draft.number(0x38, 1)
  return draft.take()
}

/** ClaimBatchRequest. */
export function encodeBatch(namespace: string, items: readonly { key: string; fingerprint?: string | Uint8Array | undefined }[], how: ClaimTerms): Buffer {
  batchSize('items', items.length, BATCH_MAX)
  const wire = items.map(({ key, fingerprint }, n) => {
    const length = textBytes(`items[${n}].key`, key)
    const item = new Draft()
    item.text(0x0a, key, length)
    item.bytes(0x12, fingerprintBytes(`items[${n}].fingerprint`, fingerprint))
    return item.take()
  })
  draft.request(namespace)
  for (const item of wire) draft.field(0x1a, item, item.length)
  draft.span(0x22, how.inProgressMs)
  draft.span(0x2a, how.retentionMs)
  if (how.complete) draft.number(0x30, 1)
  return draft.take()
}

/** CompleteClaimRequest. */
export function encodeComplete(namespace: string, key: string, fence: number, result: Value | undefined, retention: Duration | undefined): Buffer {
  const retentionMs = span('retention', retention)
  const value = result === undefined ? '' : encodePresent('result', result)
  const length = Buffer.byteLength(value)
  if (length > RESULT_MAX) throw tooLarge('result', `must be at most ${RESULT_MAX} bytes`)
  draft.request(namespace)
  draft.text(0x1a, key)
  draft.number(0x20, fence)
  if (length > 0) draft.field(0x2a, value, length)
  draft.span(0x32, retentionMs)
  return draft.take()
}

/** ExtendClaimRequest. */
export function encodeExtend(namespace: string, key: string, fence: number, ms: number | undefined): Buffer {
  draft.request(namespace)
  draft.text(0x1a, key)
  draft.number(0x20, fence)
  draft.span(0x2a, ms)
  return draft.take()
}

/** ReleaseClaimRequest. */
export function encodeRelease(namespace: string, key: string, fence: number): Buffer {
  draft.request(namespace)
  draft.text(0x1a, key)
  draft.number(0x20, fence)
  return draft.take()
}

export const CLAIM: Method<ClaimAnswer> = { field: 3, what: 'a claim', writes: true, decode: claimAnswer }

export const CLAIM_BATCH: Method<ClaimAnswer[]> = {
  field: 4, what: 'a batch of claims', writes: true,
  decode: reader => firsts(reader, field => claimAnswer(field.enter())),
}

export const COMPLETE: Method<{ outcome: (typeof COMPLETE_OUTCOMES)[number]; expiresAt: Date | undefined }> = {
  field: 5, what: 'completing a claim', writes: true, decode: reader => ended(COMPLETE_OUTCOMES, reader),
}

export const EXTEND: Method<{ outcome: (typeof EXTEND_OUTCOMES)[number]; expiresAt: Date | undefined }> = {
  field: 6, what: 'extending a claim', writes: true, decode: reader => ended(EXTEND_OUTCOMES, reader),
}

export const RELEASE: Method<{ outcome: (typeof RELEASE_OUTCOMES)[number] }> = {
  field: 7, what: 'releasing a claim', writes: true, decode: reader => ({ outcome: ended(RELEASE_OUTCOMES, reader).outcome }),
}

function claimAnswer(reader: Reader): ClaimAnswer {
  let number = 0
  const answer: ClaimAnswer = { outcome: 'new', fence: 0, retryAfterMs: 0, result: undefined, expiresAt: undefined, replayed: false }
  while (reader.at < reader.end) {
    const tag = reader.varint()
    switch (tag) {
      case 0x08: number = reader.varint(); break
      case 0x10: answer.fence = reader.varint(); break
      case 0x1a: answer.retryAfterMs = readSpan(reader); break
      case 0x22: answer.result = reader.bytes(); break
      case 0x2a: answer.expiresAt = readTime(reader); break
      case 0x30: answer.replayed = reader.varint() !== 0; break
      default: reader.skip(tag)
    }
  }
  answer.outcome = outcome(CLAIM_OUTCOMES, number)
  return answer
}

function ended<Name extends string>(names: readonly Name[], reader: Reader): { outcome: Name; expiresAt: Date | undefined } {
  let number = 0
  let expiresAt: Date | undefined
  while (reader.at < reader.end) {
    const tag = reader.varint()
    if (tag === 0x08) number = reader.varint()
    else if (tag === 0x12) expiresAt = readTime(reader)
    else reader.skip(tag)
  }
  return { outcome: outcome(names, number), expiresAt }
}

const NONE = Buffer.alloc(0)
