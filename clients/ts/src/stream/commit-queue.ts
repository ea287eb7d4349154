// The order of commits and their numbers (op_seq). Pure: no I/O, no clock.
//
// Only an applied commit uses up its number. So after a refusal those behind it, which came back OUT_OF_ORDER, move up; and
// a commit whose outcome is unknown keeps its number and is sent again under it, which the sidecar answers as `replayed` if
// it had been applied. A number may not pass to another commit while a copy of the old one may still be on its way: then only
// a new fence (another Open) makes it safe, and `settle` asks for it.

/** What the queue keeps of a commit. */
export interface Queued {
  /** 0 until it is first sent. */
  opSeq: number
  /** On its way on this stream: an answer is due. */
  sent: boolean
  /** It was sent once and may have been applied. */
  uncertain: boolean
  /** Its caller has been told that the outcome is unknown; it stays only for its number. */
  abandoned: boolean
}

/** What the queue can do next when nothing is on its way. */
export type Settled = 'send' | 'reattach' | 'stale'

/** Commits in the order they were asked for. */
export class CommitQueue<Item extends Queued> {
  /** Oldest first; those sent come before those not sent, unless `held`. */
  readonly items: Item[] = []
  /** The highest number acknowledged. */
  applied = 0
  /** The highest number known to be used: at the last Open the sidecar had applied this one, acknowledged or not. */
  known = 0
  /** How many are on their way. */
  inFlight = 0
  /** Nothing more may be sent until what is on its way is answered and the numbers are right again. */
  held = false
  #next = 1
  /** Of `items`: how many at its front have been sent. */
  #sentCount = 0

  add(item: Item): void {
    this.items.push(item)
  }

  /** The next to send, if any: it then counts as sent. */
  take(limit: number): Item | undefined {
    if (this.held || this.inFlight >= limit) return undefined
    const item = this.items[this.#sentCount]
    if (item === undefined) return undefined
    if (item.opSeq === 0) item.opSeq = this.#next
    if (item.opSeq >= this.#next) this.#next = item.opSeq + 1
    item.sent = true
    this.inFlight++
    this.#sentCount++
    return item
  }

  /** It is in. */
  committed(item: Item): void {
    if (item.opSeq > this.applied) this.applied = item.opSeq
    if (item.opSeq > this.known) this.known = item.opSeq
    this.#answered(item)
    this.#remove(item)
  }

  /** It was refused for good: its number is free. */
  refused(item: Item): void {
    this.#answered(item)
    this.#remove(item)
    this.held = true
  }

  /** It was not written, and is to be sent again. */
  again(item: Item): void {
    this.#answered(item)
    item.uncertain = false
    this.held = true
  }

  /** It may have been written, and is to be sent again under the same number. */
  unknown(item: Item): void {
    this.#answered(item)
    item.uncertain = true
    this.held = true
  }

  /** Its caller gave up. True if it could be taken out without a trace; else its number is unclear until a new Open. */
  abandon(item: Item): boolean {
    if (!item.sent && !item.uncertain) {
      this.#remove(item)
      // Those behind were numbered after it.
      if (item.opSeq !== 0) this.held = true
      return true
    }
    item.abandoned = true
    return false
  }

  /** Puts the numbers right, once `inFlight` is 0 after being held. `last`: what OUT_OF_ORDER said the sidecar has, if it did. */
  settle(last?: number): Settled {
    if (last !== undefined && last < this.applied) return 'stale'
    if (this.items.some(item => item.abandoned)) return 'reattach'
    let number = this.known
    for (const item of this.items) {
      if (item.opSeq === 0) break
      // In already: it only waits for its answer.
      if (item.uncertain && item.opSeq <= this.known) continue
      number++
      if (item.uncertain && item.opSeq !== number) return 'reattach'
      item.opSeq = number
    }
    this.#release(number + 1)
    return 'send'
  }

  /** The stream broke: what was on its way may have been applied. */
  broken(): void {
    for (const item of this.items) {
      if (item.sent) item.uncertain = true
      item.sent = false
    }
    this.inFlight = 0
    this.held = true
  }

  /**
   * A new Open succeeded; no copy of an old message can be applied any more. `last`: the number the sidecar applied last.
   * False: it is behind what was acknowledged.
   */
  reopened(last: number): boolean {
    if (last < this.applied) return false
    for (const item of this.items.filter(one => one.abandoned)) this.#remove(item)
    this.known = last
    let number = last
    for (const item of this.items) {
      if (item.opSeq === 0) break
      // In already: it is sent again all the same, for its answer.
      if (item.uncertain && item.opSeq <= last) continue
      number++
      item.opSeq = number
      item.uncertain = false
    }
    this.#release(number + 1)
    return true
  }

  #release(next: number): void {
    this.#next = next
    this.#sentCount = 0
    this.held = false
  }

  #answered(item: Item): void {
    if (!item.sent) return
    item.sent = false
    this.inFlight--
  }

  #remove(item: Item): void {
    const at = this.items[0] === item ? 0 : this.items.indexOf(item)
    if (at < 0) return
    if (at === 0) this.items.shift()
    else this.items.splice(at, 1)
    if (at < this.#sentCount) this.#sentCount--
  }
}
