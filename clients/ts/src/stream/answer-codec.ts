// Decodes AttachResponses: Records and Committed by hand, since nearly all traffic is these; the rest with the generated code.

import { AttachResponse, type Durability, type ValueKind } from '../gen/pannier/v1/session.js'
import { Reader } from './wire.js'

/** A record as it is stored. */
export interface StoredRecord {
  type: string
  id: string
  kind: ValueKind
  value: Buffer
  /** The session revision that wrote it. */
  revision: number
}

/** Part of a value over 1 MiB. */
export interface StoredFragment extends StoredRecord {
  offset: number
  total: number
}

/** A reply with records: to Get, List and Open. */
export interface RecordsAnswer {
  records: StoredRecord[]
  fragments: StoredFragment[]
  more: boolean
  revision: number
}

/** A commit that is in. */
export interface CommittedAnswer {
  baseRevision: number
  revision: number
  replayed: boolean
  durability: Durability
  durabilityMet: boolean
}

/** A message from the sidecar. `seq` 0: a push. */
export type Answer =
  | { seq: number; case: 'records'; value: RecordsAnswer }
  | { seq: number; case: 'committed'; value: CommittedAnswer }
  | { seq: number; case: 'other'; value: AttachResponse['event'] }

const SEQ = 0x08
const RECORDS = 0x1a
const COMMITTED = 0x2a

/** Reads one message. */
export function decodeAnswer(message: Buffer): Answer {
  const reader = new Reader(message)
  let seq = 0
  while (reader.at < reader.end) {
    const tag = reader.varint()
    if (tag === SEQ) seq = reader.varint()
    else if (tag === COMMITTED) return { seq, case: 'committed', value: committed(reader.enter()) }
    else if (tag === RECORDS) return { seq, case: 'records', value: records(reader.enter()) }
    else break
  }
  const whole = AttachResponse.decode(message)
  return { seq: whole.seq, case: 'other', value: whole.event }
}

function committed(reader: Reader): CommittedAnswer {
  const value: CommittedAnswer = { baseRevision: 0, revision: 0, replayed: false, durability: 0, durabilityMet: false }
  while (reader.at < reader.end) {
    const tag = reader.varint()
    switch (tag) {
      case 0x08: value.baseRevision = reader.varint(); break
      case 0x10: value.revision = reader.varint(); break
      case 0x18: value.replayed = reader.varint() !== 0; break
      case 0x20: value.durability = reader.varint(); break
      case 0x28: value.durabilityMet = reader.varint() !== 0; break
      default: reader.skip(tag)
    }
  }
  return value
}

function records(reader: Reader): RecordsAnswer {
  const value: RecordsAnswer = { records: [], fragments: [], more: false, revision: 0 }
  while (reader.at < reader.end) {
    const tag = reader.varint()
    switch (tag) {
      case 0x0a: value.records.push(record(reader.enter())); break
      case 0x12: value.fragments.push(fragment(reader.enter())); break
      case 0x18: value.more = reader.varint() !== 0; break
      case 0x20: value.revision = reader.varint(); break
      default: reader.skip(tag)
    }
  }
  return value
}

function record(reader: Reader): StoredRecord {
  const value: StoredRecord = { type: '', id: '', kind: 0, value: EMPTY, revision: 0 }
  while (reader.at < reader.end) {
    const tag = reader.varint()
    switch (tag) {
      case 0x0a: value.type = reader.string(); break
      case 0x12: value.id = reader.string(); break
      case 0x18: value.kind = reader.varint(); break
      case 0x22: value.value = reader.bytes(); break
      case 0x28: value.revision = reader.varint(); break
      default: reader.skip(tag)
    }
  }
  return value
}

function fragment(reader: Reader): StoredFragment {
  const value: StoredFragment = { type: '', id: '', kind: 0, value: EMPTY, revision: 0, offset: 0, total: 0 }
  while (reader.at < reader.end) {
    const tag = reader.varint()
    switch (tag) {
      case 0x0a: value.type = reader.string(); break
      case 0x12: value.id = reader.string(); break
      case 0x18: value.kind = reader.varint(); break
      case 0x20: value.offset = reader.varint(); break
      case 0x28: value.total = reader.varint(); break
      case 0x32: value.value = reader.bytes(); break
      case 0x38: value.revision = reader.varint(); break
      default: reader.skip(tag)
    }
  }
  return value
}

const EMPTY = Buffer.alloc(0)
