// What a conversation's field or a claim's result can be, and how it is kept as bytes.
//
// A text is its UTF-8, so that whoever looks from elsewhere sees it as it is. What is no text begins with a byte that no UTF-8 has:
// 0xFE and JSON, or 0xFF and bytes. So everything comes back as what it was.

import { isUtf8 } from 'node:buffer'
import { badField } from './errors.js'
import { isWellFormed } from './limits.js'

/** What JSON has, as JSON.stringify writes it. */
export type Json = string | number | boolean | null | readonly Json[] | { readonly [name: string]: Json | undefined }

/** A value: a text, bytes, or anything of JSON. It comes back as what it was. */
export type Value = Json | Uint8Array

const JSON_MARK = 0xfe
const BYTES_MARK = 0xff

/** A value as it is kept. Of a text: itself. @throws BadRequestError */
export function encodeValue(field: string, value: Value): string | Buffer {
  if (typeof value === 'string' && (ASCII.test(value) || isWellFormed(value))) return value
  if (value instanceof Uint8Array) return marked(BYTES_MARK, value)
  if (typeof value === 'number' && !Number.isFinite(value)) throw badField(field, 'must be a finite number')
  let text: string | undefined
  try {
    text = JSON.stringify(value)
  } catch (cause) {
    throw badField(field, `must be a text, bytes or JSON${cause instanceof Error ? ` (${cause.message.split('\n')[0]})` : ''}`)
  }
  if (text === undefined) throw badField(field, 'must be a text, bytes or JSON; to take a field away, name it in `unset`')
  return marked(JSON_MARK, Buffer.from(text))
}

/** The same of a value that is there: an empty text would look like none. */
export function encodePresent(field: string, value: unknown): string | Buffer {
  return value === '' ? Buffer.from('\xfe""', 'latin1') : encodeValue(field, value as Value)
}

/** What `encodePresent` has encoded; undefined for no bytes. */
export function decodePresent(bytes: Buffer | undefined): Value | undefined {
  return bytes?.length ? decodeValue(bytes) : undefined
}

/** The value of kept bytes. */
export function decodeValue(bytes: Buffer): Value {
  if (bytes[0] === BYTES_MARK) return new Uint8Array(bytes.subarray(1))
  try {
    if (bytes[0] === JSON_MARK) return JSON.parse(bytes.toString('utf8', 1)) as Json
  } catch {
    // Written by something else, as what follows may be: given out as it is.
  }
  const text = bytes.toString()
  return text.includes('\ufffd') && !isUtf8(bytes) ? new Uint8Array(bytes) : text
}

function marked(mark: number, bytes: Uint8Array): Buffer {
  const kept = Buffer.allocUnsafe(1 + bytes.length)
  kept[0] = mark
  kept.set(bytes, 1)
  return kept
}

const ASCII = /^[\x00-\x7f]*$/
