// Watches that the lease is renewed. When it was not for nearly its whole length another owner may come soon: then the bot
// must stop sending.

/** Before the lease's end. */
const MARGIN_MS = 3000

/** Times of one lease. */
export class LeaseWatch {
  suspended = false
  #timer: NodeJS.Timeout | undefined

  constructor(
    private readonly ttlMs: number,
    private readonly onSuspend: () => void,
    private readonly onResume: () => void,
  ) {}

  /** It has this long from now. */
  renewed(leftMs: number): void {
    clearTimeout(this.#timer)
    const left = Math.min(leftMs, this.ttlMs)
    this.#timer = setTimeout(() => {
      this.suspended = true
      this.onSuspend()
    }, Math.max(left - MARGIN_MS, left / 2))
    this.#timer.unref()
    if (!this.suspended) return
    this.suspended = false
    this.onResume()
  }

  /** It is over. */
  stop(): void {
    clearTimeout(this.#timer)
  }
}
