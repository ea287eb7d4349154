// Cuts what a gRPC stream receives into messages: each has five bytes before it, a flag and its length.

/** Larger messages are refused. */
const LARGEST = 8 * 1024 * 1024
const HEAD = 5

/** See the top of this file. */
export class MessageSplitter {
  #parts: Buffer[] = []
  #have = 0
  /** Bytes of the message that is coming, its head included; 0 until the head is there. */
  #need = 0

  /** Takes what came in; calls `onMessage` for each message that is whole now. @throws RangeError for what is no gRPC. */
  push(chunk: Buffer, onMessage: (message: Buffer) => void): void {
    let rest = chunk
    if (this.#have > 0) {
      this.#parts.push(chunk)
      this.#have += chunk.length
      if (this.#have < Math.max(HEAD, this.#need)) return
      if (this.#need === 0) this.#need = needed(joined(this.#parts))
      if (this.#have < this.#need) return
      rest = joined(this.#parts)
    }
    let at = 0
    this.#need = 0
    while (rest.length - at >= HEAD) {
      const need = needed(rest.subarray(at))
      if (rest.length - at < need) {
        this.#need = need
        break
      }
      onMessage(rest.subarray(at + HEAD, at + need))
      at += need
    }
    this.#have = rest.length - at
    this.#parts = this.#have > 0 ? [rest.subarray(at)] : []
  }
}

/** A message with its head. */
export function framed(message: Uint8Array): Buffer {
  const frame = Buffer.allocUnsafe(HEAD + message.length)
  frame[0] = 0
  frame.writeUInt32BE(message.length, 1)
  frame.set(message, HEAD)
  return frame
}

function joined(parts: Buffer[]): Buffer {
  const [first] = parts
  return parts.length === 1 && first ? first : Buffer.concat(parts)
}

function needed(head: Buffer): number {
  if (head[0] !== 0) throw new RangeError('a compressed message, which nobody asked for')
  const length = head.readUInt32BE(1)
  if (length > LARGEST) throw new RangeError(`a message of ${length} bytes`)
  return HEAD + length
}
