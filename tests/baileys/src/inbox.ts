// A queue that a test waits on. Every wait has a deadline and says what it waited for.

export class Inbox<T> {
  readonly #items: T[] = []
  readonly #waiting: ((item: T) => void)[] = []

  constructor(private readonly what: string) {}

  push(item: T): void {
    const next = this.#waiting.shift()
    if (next) next(item)
    else this.#items.push(item)
  }

  /** How many items nobody has taken yet. */
  get size(): number {
    return this.#items.length
  }

  async next({ timeoutMs = 10_000 }: { timeoutMs?: number } = {}): Promise<T> {
    const item = this.#items.shift()
    if (item !== undefined) return item
    return new Promise<T>((resolve, reject) => {
      const take = (received: T) => {
        clearTimeout(timer)
        resolve(received)
      }
      const timer = setTimeout(() => {
        this.#waiting.splice(this.#waiting.indexOf(take), 1)
        reject(new Error(`no ${this.what} within ${timeoutMs} ms`))
      }, timeoutMs)
      this.#waiting.push(take)
    })
  }
}
