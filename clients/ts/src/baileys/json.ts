// Values as Baileys stores them: bytes as they are, everything else as BufferJSON text, to the letter. Read are all three
// forms that bytes have had in BufferJSON: base64 text, an array of numbers, an object with numeric keys.
//
// A replacer or reviver makes JSON several times slower. So the text is made without, and only if it shows that there may be bytes
// inside is it made again with care. A look at the text costs far less than one at the object.

import { ValueKind } from '../gen/pannier/v1/session.js'

/** A value ready to be stored or cached. */
export interface Encoded {
  kind: ValueKind
  value: string | Buffer
  /** Bytes it takes as stored. */
  size: number
  /** Reading it needs a look for bytes inside. */
  care: boolean
  /** A fresh value made beforehand, for the next read alone (prepared.ts). */
  ready?: unknown
}

const DEEPEST = 500
/**
 * What plain JSON makes of bytes: a Buffer is tagged, another Uint8Array is an object with numeric keys, an empty one (or a Promise,
 * by mistake) an empty object; libsignal's own empty object in every session is not taken for one. An alternation: V8 searches for
 * it ten times faster than for one long word.
 */
const MAY_LOSE_BYTES = /:"Buffer"|\{"0":|(?<!"messageKeys":)\{\}/
const MAY_HOLD_BYTES = /:\s*"Buffer"|\{\s*"0"\s*:/

/**
 * A snapshot of a value.
 * @throws TypeError for what JSON cannot hold, and for a Promise.
 */
export function encode(value: unknown): Encoded {
  const bytes = bytesOf(value)
  if (bytes) return { kind: ValueKind.VALUE_KIND_BYTES, value: bytes, size: bytes.length, care: false }
  if (isThenable(value)) throw new TypeError('a value is a Promise: await it first')
  let text = stringify(value)
  const care = text !== undefined && MAY_LOSE_BYTES.test(text)
  if (care) text = stringify(tagged(value, '', 0))
  if (text === undefined) throw new TypeError(`a value of type ${typeof value} cannot be stored`)
  return { kind: ValueKind.VALUE_KIND_JSON, value: text, size: Buffer.byteLength(text), care }
}

function stringify(value: unknown): string | undefined {
  try {
    return JSON.stringify(value)
  } catch (error) {
    if (error instanceof RangeError) throw new TypeError('a value is nested too deeply, or holds itself')
    throw error
  }
}

/** A fresh value. */
export function decode(stored: Pick<Encoded, 'kind' | 'value' | 'care' | 'ready'>): unknown {
  const { ready } = stored
  if (ready !== undefined) {
    stored.ready = undefined
    return ready
  }
  if (typeof stored.value !== 'string') return Buffer.from(stored.value)
  if (stored.kind === ValueKind.VALUE_KIND_TEXT) return stored.value
  const value: unknown = JSON.parse(stored.value)
  return stored.care ? revived(value) : value
}

/** What came from the sidecar, for the cache. The bytes are copied out of the message. */
export function fromStored(kind: ValueKind, bytes: Buffer): Encoded {
  if (kind !== ValueKind.VALUE_KIND_JSON && kind !== ValueKind.VALUE_KIND_TEXT) {
    return { kind: ValueKind.VALUE_KIND_BYTES, value: Buffer.from(bytes), size: bytes.length, care: false }
  }
  const value = bytes.toString('utf8')
  return { kind, value, size: bytes.length, care: MAY_HOLD_BYTES.test(value) }
}

/** The bytes of a value that is bytes in any of their forms; a copy. */
function bytesOf(value: unknown): Buffer | undefined {
  if (value instanceof Uint8Array) return Buffer.from(value)
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return undefined
  return taggedBytes(value as Record<string, unknown>) ?? numberedBytes(value as Record<string, unknown>)
}

/** `{ type: 'Buffer', data }` */
function taggedBytes(value: Record<string, unknown>): Buffer | undefined {
  if (value.type !== 'Buffer') return undefined
  const { data } = value
  if (typeof data === 'string') return Buffer.from(data, 'base64')
  if (data instanceof Uint8Array || isByteArray(data)) return Buffer.from(data)
  return undefined
}

/** `{ "0": 7, "1": 255, … }`, without gaps. */
function numberedBytes(value: Record<string, unknown>): Buffer | undefined {
  if (typeof value['0'] !== 'number') return undefined
  const keys = Object.keys(value)
  // Integer keys come first and in order, so these are 0, 1, 2 … if the last one fits.
  if (keys[keys.length - 1] !== String(keys.length - 1)) return undefined
  const numbers = Object.values(value)
  return isByteArray(numbers) ? Buffer.from(numbers) : undefined
}

function isByteArray(value: unknown): value is number[] {
  return Array.isArray(value) && value.every(item => typeof item === 'number' && (item & 255) === item)
}

function isThenable(value: unknown): boolean {
  return typeof value === 'object' && value !== null && typeof (value as { then?: unknown }).then === 'function'
}

/** A copy in which bytes are tagged base64. */
function tagged(value: unknown, key: string, depth: number): unknown {
  if (typeof value !== 'object' || value === null) return value
  if (depth > DEEPEST) throw new TypeError('a value is nested too deeply, or holds itself')
  if (isThenable(value)) throw new TypeError('a value holds a Promise: await it first')
  const bytes = value instanceof Uint8Array ? value : taggedBytes(value as Record<string, unknown>)
  if (bytes) return { type: 'Buffer', data: Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('base64') }
  if (Array.isArray(value)) return value.map((item, index) => tagged(item, String(index), depth + 1))
  const { toJSON } = value as { toJSON?: unknown }
  if (typeof toJSON === 'function') return tagged((toJSON as (key: string) => unknown).call(value, key), key, depth + 1)
  const copy: Record<string, unknown> = {}
  for (const [name, item] of Object.entries(value)) define(copy, name, tagged(item, name, depth + 1))
  return copy
}

/** The value with its bytes as Buffers; objects are changed in place. */
function revived(value: unknown): unknown {
  if (typeof value !== 'object' || value === null) return value
  if (Array.isArray(value)) {
    for (let i = 0; i < value.length; i++) {
      const item: unknown = value[i]
      if (typeof item === 'object' && item !== null) value[i] = revived(item)
    }
    return value
  }
  const object = value as Record<string, unknown>
  const bytes = taggedBytes(object) ?? numberedBytes(object)
  if (bytes) return bytes
  for (const key of Object.keys(object)) {
    const item = object[key]
    if (typeof item !== 'object' || item === null) continue
    const alive = revived(item)
    if (alive !== item) define(object, key, alive)
  }
  return object
}

/** Sets a property of any name: `__proto__` too is just a name here. */
export function define(object: Record<string, unknown>, name: string, value: unknown): void {
  if (name === '__proto__') Object.defineProperty(object, name, { value, enumerable: true, configurable: true, writable: true })
  else object[name] = value
}
