// One Attach stream as the wire has it: raw messages out, decoded answers in, one end.

import type { ClientDuplexStream, ServiceError } from '@grpc/grpc-js'
import type { Connection } from '../connection.js'
import { fromService, makeError, type PannierError } from '../errors.js'
import { AttachRequest, SessionServiceService, type Open } from '../gen/pannier/v1/session.js'
import { decodeAnswer, type Answer } from './answer-codec.js'

/** Who listens to a stream. */
export interface AttachListener {
  onAnswer(answer: Answer): void
  /** Once, unless `drop` was called before. Without an error: the sidecar ended it in order. */
  onEnd(error: PannierError | undefined): void
}

/** A stream. Its first message is Open. */
export class Attach {
  readonly #call: ClientDuplexStream<Buffer, Buffer>
  /** Who listens now. */
  listener: AttachListener
  #ended = false
  #seq = 1

  constructor(connection: Connection, open: Open, timeoutMs: number, listener: AttachListener) {
    this.listener = listener
    const call = connection.stream(SessionServiceService.attach.path)
    this.#call = call
    call.on('data', (message: Buffer) => this.#receive(message))
    // The status comes as an error too, except OK.
    call.on('error', (error: ServiceError) => this.#end(fromService(error)))
    call.on('end', () => this.#end(undefined))
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
