// Baileys reads a session back soon after it stored it. Making the object from its text takes longer than all the rest of a
// cached read, so it is made while the sidecar stores it, when there is nothing else to do. Each is given out once.

import { ValueKind } from '../gen/pannier/v1/session.js'
import { decode, type Encoded } from './json.js'

/** Smaller ones are made quickly enough. */
const SMALLEST = 512
const LARGEST = 128 * 1024
/** Text of those that wait to be read; as objects they take about four times as much. */
const LIMIT = 512 * 1024

/** See the top of this file. */
export class Prepared {
  readonly #waiting: Encoded[] = []
  #bytes = 0

  /** Makes the values that are worth it. */
  add(values: readonly Encoded[]): void {
    for (const value of values) {
      if (value.kind !== ValueKind.VALUE_KIND_JSON || value.size < SMALLEST || value.size > LARGEST) continue
      value.ready = decode(value)
      this.#waiting.push(value)
      this.#bytes += value.size
    }
    while (this.#bytes > LIMIT) {
      const oldest = this.#waiting.shift()
      if (oldest === undefined) return
      oldest.ready = undefined
      this.#bytes -= oldest.size
    }
  }
}
