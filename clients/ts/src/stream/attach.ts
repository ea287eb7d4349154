// One Attach stream as the wire has it: raw messages out, decoded answers in, one end.

import type { Connection } from '../connection.js'
import { makeError, type PannierError } from '../errors.js'
import { AttachRequest, SessionServiceService, type Open } from '../gen/pannier/v1/session.js'
import type { RawStream } from '../transport/channel.js'
import { decodeAnswer, type Answer } from './answer-codec.js'

/** Who listens to a stream. */
export interface AttachListener {
  onAnswer(answer: Answer): void
  /** Once, unless `drop` was called before. Without an error: the sidecar ended it in order. */
  onEnd(error: PannierError | undefined): void
}

/** A stream. Its first message is Open. */
export class Attach {
  readonly #call: RawStream
  /** Who listens now. */
  listener: AttachListener
  #ended = false
  #seq = 1

  constructor(connection: Connection, open: Open, timeoutMs: number, listener: AttachListener) {
    this.listener = listener
    this.#call = connection.stream(SessionServiceService.attach.path, {
      onMessage: message => this.#receive(message),
      onEnd: error => this.#end(error),
    })
    this.request(this.#seq, timeoutMs, { $case: 'open', value: open })
  }

  /** The number of the next request: starts at 2, Open had 1. */
  nextSeq(): number {
    return ++this.#seq
  }

  /** So many requests were made that the numbers run out: time for another stream. */
  get worn(): boolean {
    return this.#seq > 0xffff_0000
  }

  /** Sends an encoded AttachRequest. */
  write(message: Buffer): void {
    if (!this.#ended) this.#call.write(message)
  }

  /** Encodes and sends a request that is not on the hot path. */
  request(seq: number, timeoutMs: number, op: NonNullable<AttachRequest['op']>): void {
    this.write(Buffer.from(AttachRequest.encode({ seq, timeoutMs, op }).finish()))
  }

  /** Ends it at once, silently; the lease stays with its owner. */
  drop(): void {
    if (this.#ended) return
    this.#ended = true
    this.#call.cancel()
  }

  #receive(message: Buffer): void {
    if (this.#ended) return
    let answer: Answer
    try {
      answer = decodeAnswer(message)
    } catch (error) {
      this.#call.cancel()
      this.#end(makeError({ code: 'INTERNAL', reason: 'PROTOCOL', message: 'the sidecar sent a message that cannot be read', cause: error }))
      return
    }
    this.listener.onAnswer(answer)
  }

  #end(error: PannierError | undefined): void {
    if (this.#ended) return
    this.#ended = true
    this.listener.onEnd(error)
  }
}
