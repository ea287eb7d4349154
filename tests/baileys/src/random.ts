// Seeded randomness (SplitMix32): a failing run is repeated by its seed.

export class Random {
  constructor(private state: number) {}

  /** A seed from $SEED, or a fresh one. */
  static seed(): number {
    const given = process.env['SEED']
    return given === undefined ? Math.floor(Math.random() * 0x1_0000_0000) : Number(given)
  }

  /** Uniform in [0, 1). */
  next(): number {
    this.state = (this.state + 0x9e3779b9) | 0
    let z = this.state
    z = Math.imul(z ^ (z >>> 16), 0x21f0aaad)
    z = Math.imul(z ^ (z >>> 15), 0x735a2d97)
    return ((z ^ (z >>> 15)) >>> 0) / 0x1_0000_0000
  }

  /** Whole number in [0, below). */
  below(below: number): number {
    return Math.floor(this.next() * below)
  }

  pick<T>(items: readonly T[]): T {
    const item = items[this.below(items.length)]
    if (item === undefined) throw new Error('nothing to pick from')
    return item
  }

  /** `count` different items. */
  sample<T>(items: readonly T[], count: number): T[] {
    const left = [...items]
    return Array.from({ length: Math.min(count, left.length) }, () => left.splice(this.below(left.length), 1)[0] as T)
  }

  bytes(length: number): Buffer {
    const bytes = Buffer.alloc(length)
    for (let at = 0; at < length; at += 4) {
      const word = (this.next() * 0x1_0000_0000) >>> 0
      for (let i = at; i < Math.min(at + 4, length); i++) bytes[i] = (word >>> (8 * (i - at))) & 0xff
    }
    return bytes
  }
}
