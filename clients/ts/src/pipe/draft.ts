// Encodes requests, one at a time, into a buffer that is used again for each and grows as needed.

import { randomUUID } from 'node:crypto'
import { varintSize, Writer } from '../stream/wire.js'

/** See the top of this file. */
export class Draft extends Writer {
  constructor() {
    super(4096)
  }

  /** Forgets what was written. */
  begin(): void {
    this.position = 0
  }

  /** Begins a request: its namespace and, as it is sent for the first time, a request_id of its own. */
  request(namespace: string): void {
    this.begin()
    this.text(0x0a, namespace)
    this.text(0x12, randomUUID(), 36)
  }

  /** A copy of what was written. */
  take(): Buffer {
    const { buffer, position } = this
    const message = Buffer.allocUnsafe(position)
    buffer.copy(message, 0, 0, position)
    // One large request must not keep its memory for good.
    if (buffer.length > KEPT) this.buffer = Buffer.allocUnsafe(4096)
    return message
  }

  /** A text; nothing for an empty one. `length` = its bytes, where they are known. */
  text(tag: number, value: string, length = Buffer.byteLength(value)): void {
    if (length > 0) this.field(tag, value, length)
  }

  /** Bytes; nothing for none. */
  bytes(tag: number, value: Uint8Array): void {
    if (value.length > 0) this.field(tag, value, value.length)
  }

  /** A google.protobuf.Duration of whole milliseconds; nothing for undefined. */
  span(tag: number, ms: number | undefined): void {
    if (ms === undefined) return
    const seconds = Math.floor(ms / 1000)
    const nanos = (ms - seconds * 1000) * 1_000_000
    this.head(tag, (seconds === 0 ? 0 : 1 + varintSize(seconds)) + (nanos === 0 ? 0 : 1 + varintSize(nanos)))
    this.number(0x08, seconds)
    this.number(0x10, nanos)
  }

  /** A varint field; nothing for 0. */
  override number(tag: number, n: number): void {
    this.#reserve(0)
    super.number(tag, n)
  }

  override head(tag: number, length: number): void {
    this.#reserve(0)
    super.head(tag, length)
  }

  override field(tag: number, value: string | Uint8Array, length: number): void {
    this.#reserve(length)
    super.field(tag, value, length)
  }

  /** Room for a field of so many bytes, and for its head. */
  #reserve(bytes: number): void {
    const least = this.position + bytes + 32
    if (least <= this.buffer.length) return
    const larger = Buffer.allocUnsafe(Math.max(least, this.buffer.length * 2))
    this.buffer.copy(larger, 0, 0, this.position)
    this.buffer = larger
  }
}

const KEPT = 64 * 1024
