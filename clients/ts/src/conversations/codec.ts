// Conversations on the wire: requests, and their answers read by hand.

import { badField, tooLarge } from '../errors.js'
import { count, textBytes } from '../limits.js'
import { firstNumber, firsts, outcome, present, readTime } from '../pipe/answers.js'
import type { Method } from '../pipe/call.js'
import { Draft } from '../pipe/draft.js'
import { fieldSize, type Reader } from '../stream/wire.js'
import { decodeValue, encodeValue, type Value } from '../value.js'
import type { AdvanceResult, Conversation, Fields } from './conversations.js'

/** What an Advance asks for, as the wire wants it. */
export interface AdvanceTerms {
  id: string
  step: string | undefined
  fields: Fields
  unset: readonly string[]
  replace: boolean
  ttlMs: number | undefined
  maxAgeMs: number | undefined
  expectedVersion: number | undefined
  expectedSteps: readonly string[] | undefined
}

const NAME_MAX = 128
const FIELDS_MAX = 1000
const FIELDS_BYTES_MAX = 256 * 1024
const STEPS_MAX = 32
const ADVANCE_OUTCOMES = ['advanced', 'conflict', 'ceiling'] as const

const draft = new Draft()

/** GetConversationRequest. */
export function encodeGet(namespace: string, id: string): Buffer {
  const length = textBytes('id', id)
  draft.begin()
  draft.text(0x0a, namespace)
  draft.text(0x12, id, length)
  return draft.take()
}

/** TouchConversationRequest; ResetConversationRequest, which has no `ttl`. */
export function encodeTouch(namespace: string, id: string, ttlMs: number | undefined): Buffer {
  begin(namespace, id)
  draft.span(0x22, ttlMs)
  return draft.take()
}

/** AdvanceRequest. */
export function encodeAdvance(namespace: string, how: AdvanceTerms): Buffer {
  const { step, unset, expectedVersion, expectedSteps } = how
  const stepBytes = step === undefined ? 0 : textBytes('step', step, NAME_MAX)
  if (expectedVersion !== undefined && expectedSteps !== undefined) throw badField('expected_steps', 'cannot be given with `expected_version`')
  if (expectedVersion !== undefined) count('expected_version', expectedVersion, 0, Number.MAX_SAFE_INTEGER)
  begin(namespace, how.id)
  if (step !== undefined) draft.text(0x22, step, stepBytes)
  set(how.fields)
  if (unset.length > FIELDS_MAX) throw tooLarge('unset', `must be at most ${FIELDS_MAX}`)
  for (const name of unset) {
    const length = textBytes('unset', name, NAME_MAX)
    if (Object.hasOwn(how.fields, name)) throw badField('unset', 'names a field that is also set')
    draft.text(0x32, name, length)
  }
  if (how.replace) draft.number(0x38, 1)
  draft.span(0x42, how.ttlMs)
  draft.span(0x4a, how.maxAgeMs)
  // Of a oneof: also 0 is sent.
  if (expectedVersion !== undefined) draft.head(0x50, expectedVersion)
  if (expectedSteps !== undefined) steps(expectedSteps)
  return draft.take()
}

function begin(namespace: string, id: string): void {
  draft.request(namespace)
  draft.text(0x1a, id, textBytes('id', id))
}

function set(fields: Fields): void {
  let total = 0
  let number = 0
  for (const name of Object.keys(fields)) {
    const key = textBytes('set', name, NAME_MAX)
    const value = encodeValue('set', fields[name] as Value)
    const length = Buffer.byteLength(value)
    total += key + length
    if (++number > FIELDS_MAX) throw tooLarge('set', `must be at most ${FIELDS_MAX} fields`)
    if (total > FIELDS_BYTES_MAX) throw tooLarge('set', 'must be at most 256 KiB, names and values together')
    draft.head(0x2a, fieldSize(key) + (length === 0 ? 0 : fieldSize(length)))
    draft.field(0x0a, name, key)
    if (length > 0) draft.field(0x12, value, length)
  }
}

function steps(expected: readonly string[]): void {
  if (expected.length < 1 || expected.length > STEPS_MAX) throw badField('expected_steps', `must be 1..${STEPS_MAX}`)
  const list = new Draft()
  expected.forEach((step, n) => list.text(0x0a, step, textBytes(`expected_steps.steps[${n}]`, step, NAME_MAX)))
  draft.bytes(0x5a, list.take())
}

export const GET: Method<Conversation> = { field: 8, what: 'reading a conversation', writes: false, decode: onlyState }

export const ADVANCE: Method<AdvanceResult> = {
  field: 9, what: 'advancing a conversation', writes: true,
  decode(reader) {
    let number = 0
    let state: Conversation | undefined
    let replayed = false
    while (reader.at < reader.end) {
      const tag = reader.varint()
      switch (tag) {
        case 0x08: number = reader.varint(); break
        case 0x12: state = readState(reader.enter()); break
        case 0x18: replayed = reader.varint() !== 0; break
        default: reader.skip(tag)
      }
    }
    return { outcome: outcome(ADVANCE_OUTCOMES, number), state: present(state, 'state'), replayed }
  },
}

export const TOUCH: Method<Conversation> = { field: 10, what: 'touching a conversation', writes: true, decode: onlyState }

export const RESET: Method<boolean> = {
  field: 11, what: 'resetting a conversation', writes: true,
  decode: reader => firstNumber(reader) !== 0,
}

function onlyState(reader: Reader): Conversation {
  return present(firsts(reader, field => readState(field.enter())).at(-1), 'state')
}

function readState(reader: Reader): Conversation {
  let exists = false
  let step = ''
  let version = 0
  // No prototype: a field may have any name.
  const fields = Object.create(null) as Record<string, Value>
  let startedAt: Date | undefined
  let updatedAt: Date | undefined
  let expiresAt: Date | undefined
  let endsAt: Date | undefined
  while (reader.at < reader.end) {
    const tag = reader.varint()
    switch (tag) {
      case 0x08: exists = reader.varint() !== 0; break
      case 0x12: step = reader.string(); break
      case 0x1a: readField(reader.enter(), fields); break
      case 0x20: version = reader.varint(); break
      case 0x2a: startedAt = readTime(reader); break
      case 0x32: updatedAt = readTime(reader); break
      case 0x3a: expiresAt = readTime(reader); break
      case 0x42: endsAt = readTime(reader); break
      default: reader.skip(tag)
    }
  }
  if (!exists) return { exists: false, step: 'idle', fields: Object.create(null) as Record<string, never>, version: 0 }
  return {
    exists: true, step, fields, version,
    startedAt: present(startedAt, 'started_at'), updatedAt: present(updatedAt, 'updated_at'), expiresAt: present(expiresAt, 'expires_at'), endsAt,
  }
}

function readField(reader: Reader, fields: Record<string, Value>): void {
  let name = ''
  let value: Buffer = NONE
  while (reader.at < reader.end) {
    const tag = reader.varint()
    if (tag === 0x0a) name = reader.string()
    else if (tag === 0x12) value = reader.bytes()
    else reader.skip(tag)
  }
  fields[name] = decodeValue(value)
}

const NONE: Buffer = Buffer.alloc(0)
