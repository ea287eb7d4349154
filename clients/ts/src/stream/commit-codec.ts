// Encodes a commit as AttachRequests of about 1 MiB: one in nearly all cases; several with `more` for a large one; a value
// over 1 MiB as fragments.

import { Durability, ValueKind } from '../gen/pannier/v1/session.js'
import { fieldSize, varintSize, Writer } from './wire.js'

/** A record to write. The value is not copied before it is encoded: it must not change until the commit settles. */
export interface PutItem {
  type: string
  id: string
  kind: ValueKind
  value: string | Uint8Array
  /** Bytes of the value (UTF-8 of a text). */
  size: number
  /** The revision the stored record must have; 0: it must be absent. */
  ifRevision?: number | undefined
}

/** Names a record. */
export interface RecordName {
  type: string
  id: string
}

/** What a commit does. */
export interface CommitBody {
  puts: readonly PutItem[]
  deletes: readonly RecordName[]
  /** An encoded `Attributes`. */
  attributes?: Uint8Array | undefined
  /** The session revision that must be the current one. */
  expectedRevision?: number | undefined
  /** Names an incarnation; 0 or absent: the stream's. */
  incarnation?: number | undefined
  minDurability?: Durability | undefined
}

/** A message stays near this. */
const MESSAGE = 1024 * 1024
/** A value above this goes in fragments of this. */
const FRAGMENT = 1024 * 1024 - 4096

/** Tags of AttachRequest, Commit, Put, Record, RecordRef and Fragment (field number × 8 + wire type). */
const T = {
  seq: 0x08, timeout: 0x10, commit: 0x32,
  opSeq: 0x10, puts: 0x1a, deletes: 0x22, fragments: 0x2a, more: 0x30, expected: 0x38, incarnation: 0x40, attributes: 0x4a, durability: 0x50,
  record: 0x0a, putIf: 0x10,
  type: 0x0a, id: 0x12, kind: 0x18, value: 0x22,
  offset: 0x20, total: 0x28, data: 0x32, fragmentIf: 0x40,
} as const

/** A part of a message: its size, and how it is written. */
interface Piece {
  size: number
  write: (writer: Writer) => void
}

/** Bytes of a commit's records, names included: what the 32 MiB limit counts, nearly. */
export function bodySize(body: CommitBody): number {
  let size = 0
  for (const put of body.puts) size += put.size + put.type.length + put.id.length + 16
  for (const name of body.deletes) size += name.type.length + name.id.length + 8
  return size
}

/** The messages of a commit, in order. */
export function encodeCommit(seq: number, timeoutMs: number, opSeq: number, body: CommitBody): Buffer[] {
  const messages: Buffer[] = []
  let pieces: Piece[] = []
  let size = 0
  const add = (piece: Piece): void => {
    if (size > 0 && size + piece.size > MESSAGE) flush(true)
    pieces.push(piece)
    size += piece.size
  }
  const flush = (more: boolean): void => {
    messages.push(message(seq, timeoutMs, opSeq, body, pieces, size, messages.length === 0, more))
    pieces = []
    size = 0
  }
  for (const put of body.puts) {
    if (put.size <= FRAGMENT) add(putPiece(put))
    else for (const piece of fragmentPieces(put)) add(piece)
  }
  for (const name of body.deletes) add(deletePiece(name))
  flush(false)
  return messages
}

function message(
  seq: number,
  timeoutMs: number,
  opSeq: number,
  body: CommitBody,
  pieces: readonly Piece[],
  piecesSize: number,
  first: boolean,
  more: boolean,
): Buffer {
  const { expectedRevision, incarnation = 0, minDurability = Durability.DURABILITY_UNSPECIFIED } = body
  const attributes = first ? body.attributes : undefined
  let size = piecesSize + 1 + varintSize(opSeq)
  if (more) size += 2
  if (expectedRevision !== undefined) size += 1 + varintSize(expectedRevision)
  if (incarnation !== 0) size += 1 + varintSize(incarnation)
  if (attributes) size += fieldSize(attributes.length)
  if (minDurability !== Durability.DURABILITY_UNSPECIFIED) size += 1 + varintSize(minDurability)
  const timeout = timeoutMs === 0 ? 0 : 1 + varintSize(timeoutMs)
  const writer = new Writer(1 + varintSize(seq) + timeout + fieldSize(size))
  writer.number(T.seq, seq)
  writer.number(T.timeout, timeoutMs)
  writer.head(T.commit, size)
  writer.head(T.opSeq, opSeq)
  for (const piece of pieces) piece.write(writer)
  if (more) writer.number(T.more, 1)
  if (expectedRevision !== undefined) writer.head(T.expected, expectedRevision)
  writer.number(T.incarnation, incarnation)
  if (attributes) writer.field(T.attributes, attributes, attributes.length)
  writer.number(T.durability, minDurability)
  return writer.buffer
}

function putPiece(put: PutItem): Piece {
  const { type, id, kind, value, size: length, ifRevision } = put
  const typeLength = Buffer.byteLength(type)
  const idLength = Buffer.byteLength(id)
  const record = fieldSize(typeLength) + fieldSize(idLength) + (kind === ValueKind.VALUE_KIND_UNSPECIFIED ? 0 : 2) + (length === 0 ? 0 : fieldSize(length))
  const inner = fieldSize(record) + (ifRevision === undefined ? 0 : 1 + varintSize(ifRevision))
  return {
    size: fieldSize(inner),
    write(writer) {
      writer.head(T.puts, inner)
      writer.head(T.record, record)
      writer.field(T.type, type, typeLength)
      writer.field(T.id, id, idLength)
      writer.number(T.kind, kind)
      if (length > 0) writer.field(T.value, value, length)
      if (ifRevision !== undefined) writer.head(T.putIf, ifRevision)
    },
  }
}

function deletePiece({ type, id }: RecordName): Piece {
  const typeLength = Buffer.byteLength(type)
  const idLength = Buffer.byteLength(id)
  const inner = fieldSize(typeLength) + fieldSize(idLength)
  return {
    size: fieldSize(inner),
    write(writer) {
      writer.head(T.deletes, inner)
      writer.field(T.type, type, typeLength)
      writer.field(T.id, id, idLength)
    },
  }
}

function* fragmentPieces(put: PutItem): Generator<Piece> {
  const { type, id, kind, size: total, ifRevision } = put
  const value = typeof put.value === 'string' ? Buffer.from(put.value) : put.value
  const typeLength = Buffer.byteLength(type)
  const idLength = Buffer.byteLength(id)
  for (let offset = 0; offset < total; offset += FRAGMENT) {
    const data = value.subarray(offset, offset + FRAGMENT)
    const inner =
      fieldSize(typeLength) + fieldSize(idLength) + (kind === ValueKind.VALUE_KIND_UNSPECIFIED ? 0 : 2) + (offset === 0 ? 0 : 1 + varintSize(offset)) +
      1 + varintSize(total) + fieldSize(data.length) + (ifRevision === undefined ? 0 : 1 + varintSize(ifRevision))
    yield {
      size: fieldSize(inner),
      write(writer) {
        writer.head(T.fragments, inner)
        writer.field(T.type, type, typeLength)
        writer.field(T.id, id, idLength)
        writer.number(T.kind, kind)
        writer.number(T.offset, offset)
        writer.number(T.total, total)
        writer.field(T.data, data, data.length)
        if (ifRevision !== undefined) writer.head(T.fragmentIf, ifRevision)
      },
    }
  }
}
