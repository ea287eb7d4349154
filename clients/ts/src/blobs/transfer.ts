// One bulk stream: messages out and in with back-pressure on both sides, and an end to every wait.

import type { Connection } from '../connection.js'
import { deadlineExceeded, type PannierError } from '../errors.js'
import type { RawStream } from '../transport/channel.js'

/** Messages kept here before the sidecar has to wait: ≤ 256 KiB each. */
const AHEAD = 8

/** See the top of this file. */
export class Transfer {
  readonly #stream: RawStream
  readonly #done: () => void
  readonly #received: Buffer[] = []
  #over = false
  #failure: PannierError | undefined
  #wake: (() => void) | undefined
  readonly #idle: NodeJS.Timeout

  /** `idleMs`: with nothing written or received for so long, it has failed. */
  constructor(connection: Connection, path: string, private readonly idleMs: number) {
    const { stream, done } = connection.bulkStream(path, {
      onMessage: message => {
        this.#idle.refresh()
        // A copy of its own, so that it does not hold on to all that came with it.
        this.#received.push(Buffer.from(message))
        if (this.#received.length >= AHEAD) stream.pause()
        this.#wake?.()
      },
      onEnd: error => this.#end(error),
    })
    this.#stream = stream
    this.#done = done
    this.#idle = setTimeout(() => this.#end(deadlineExceeded('a step of the transfer', this.idleMs, false)), idleMs)
  }

  /** The sidecar has ended it, or answered already: there is no point in sending on. */
  get answered(): boolean {
    return this.#over || this.#received.length > 0
  }

  /** Sends a message; settles when there is room for the next one. */
  async send(message: Uint8Array): Promise<void> {
    if (this.#over) return
    if (!this.#stream.write(message)) {
      const over = new Promise<void>(resolve => (this.#wake = resolve))
      await Promise.race([this.#stream.drained(), over])
      this.#wake = undefined
    }
    this.#idle.refresh()
  }

  /** That was all from this side. */
  finish(): void {
    this.#stream.finish()
  }

  /** The next message; undefined when the sidecar ended it in order. @throws PannierError */
  async next(): Promise<Buffer | undefined> {
    for (;;) {
      const message = this.#received.shift()
      if (message) {
        this.#idle.refresh()
        if (this.#received.length === AHEAD - 1) this.#stream.resume()
        return message
      }
      if (this.#failure) throw this.#failure
      if (this.#over) return undefined
      await new Promise<void>(resolve => (this.#wake = resolve))
      this.#wake = undefined
    }
  }

  /** Ends it, whatever its state. */
  close(): void {
    clearTimeout(this.#idle)
    this.#stream.cancel()
    this.#done()
    this.#over = true
    this.#wake?.()
  }

  #end(error: PannierError | undefined): void {
    if (this.#over) return
    this.#failure = error
    this.#over = true
    clearTimeout(this.#idle)
    this.#wake?.()
  }
}
