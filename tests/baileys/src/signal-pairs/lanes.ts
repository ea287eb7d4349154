// Keeps apart what must not run at the same time, and lets the rest overlap: work waits for the earlier work that named
// one of the same lanes, and for nothing else.

export class Lanes {
  readonly #tails = new Map<string, Promise<unknown>>()
  readonly #running = new Set<Promise<unknown>>()
  #failure: unknown

  start(lanes: string[], work: () => Promise<void>): void {
    const before = lanes.map(lane => this.#tails.get(lane))
    const done = Promise.all(before)
      .then(() => (this.#failure === undefined ? work() : undefined))
      .catch(error => {
        this.#failure ??= error
      })
    for (const lane of lanes) this.#tails.set(lane, done)
    this.#running.add(done)
    void done.then(() => this.#running.delete(done))
  }

  /** Waits until at most `left` pieces of work are under way. Throws the first failure. */
  async drain(left = 0): Promise<void> {
    while (this.#running.size > left) await Promise.race(this.#running)
    if (this.#failure !== undefined) throw this.#failure
  }
}
