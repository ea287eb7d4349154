// Protobuf by hand, for the few messages of the hot path: no bigint, no intermediate objects, value bytes copied once.

/** Bytes of a varint. `n` is a safe integer ≥ 0. */
export function varintSize(n: number): number {
  let size = 1
  while (n >= 128) {
    n = Math.floor(n / 128)
    size++
  }
  return size
}

/** Writes into a buffer of known size. */
export class Writer {
  buffer: Buffer
  position = 0

  constructor(size: number) {
    this.buffer = Buffer.allocUnsafe(size)
  }

  varint(n: number): void {
    const buffer = this.buffer
    let at = this.position
    while (n >= 128) {
      // The low 7 bits; `%` also of numbers beyond 32 bits.
      buffer[at++] = n > 0x7fffffff ? (n % 128) | 128 : (n & 127) | 128
      n = n > 0x7fffffff ? Math.floor(n / 128) : n >>> 7
    }
    buffer[at++] = n
    this.position = at
  }

  /** The five bytes before a gRPC message. */
  frame(length: number): void {
    this.buffer[this.position] = 0
    this.position = this.buffer.writeUInt32BE(length, this.position + 1)
  }

  /** Bytes as they are. */
  raw(bytes: Uint8Array): void {
    this.buffer.set(bytes, this.position)
    this.position += bytes.length
  }

  /** A varint field; nothing for 0. */
  number(tag: number, n: number): void {
    if (n === 0) return
    this.varint(tag)
    this.varint(n)
  }

  /** The head of a length-delimited field. */
  head(tag: number, length: number): void {
    this.varint(tag)
    this.varint(length)
  }

  /** A length-delimited field. `length` = its bytes. */
  field(tag: number, value: string | Uint8Array, length: number): void {
    this.head(tag, length)
    if (typeof value === 'string') {
      // As many bytes as characters: ASCII, which latin1 copies straight.
      if (value.length === length) this.buffer.write(value, this.position, length, 'latin1')
      else this.buffer.write(value, this.position, length, 'utf8')
    } else {
      this.buffer.set(value, this.position)
    }
    this.position += length
  }
}

/** Bytes of a length-delimited field with a one-byte tag; 0 for an empty one, which is left out. */
export function fieldSize(length: number): number {
  return 1 + varintSize(length) + length
}

/** Reads a message. */
export class Reader {
  at: number
  readonly end: number
  readonly buffer: Buffer

  constructor(buffer: Buffer, at = 0, end = buffer.length) {
    this.buffer = buffer
    this.at = at
    this.end = end
  }

  varint(): number {
    let value = 0
    let scale = 1
    for (;;) {
      if (this.at >= this.end) throw new RangeError('truncated message')
      const byte = this.buffer[this.at++] as number
      value += (byte & 127) * scale
      if (byte < 128) return value
      scale *= 128
    }
  }

  /** Enters a length-delimited field: where it ends. */
  length(): number {
    const end = this.varint() + this.at
    if (end > this.end) throw new RangeError('truncated message')
    return end
  }

  /** A reader of the embedded message that comes next; this one goes on behind it. */
  enter(): Reader {
    const end = this.length()
    const inner = new Reader(this.buffer, this.at, end)
    this.at = end
    return inner
  }

  string(): string {
    const end = this.length()
    const text = this.buffer.toString('utf8', this.at, end)
    this.at = end
    return text
  }

  /** The bytes, not copied. */
  bytes(): Buffer {
    const end = this.length()
    const part = this.buffer.subarray(this.at, end)
    this.at = end
    return part
  }

  skip(tag: number): void {
    switch (tag & 7) {
      case 0:
        this.varint()
        return
      case 1:
        this.at += 8
        return
      case 2:
        this.at = this.length()
        return
      case 5:
        this.at += 4
        return
      default:
        throw new RangeError('unknown wire type')
    }
  }
}
