// What the demo says: sections, ticks and times. Colour only on a terminal, and not with NO_COLOR.

const BOLD = '1'
const DIM = '2'
const GREEN = '32'
const RED = '31'

/** See the top of this file. */
export class Say {
  #failed = 0
  #passed = 0
  readonly #began = performance.now()
  readonly #colour: boolean

  constructor(private readonly out: NodeJS.WriteStream) {
    this.#colour = out.isTTY && process.env['NO_COLOR'] === undefined
  }

  title(text: string): void {
    this.out.write(`\n${this.#paint(BOLD, text)}\n`)
  }

  line(text: string): void {
    this.out.write(`  ${this.#paint(DIM, '·')} ${text}\n`)
  }

  /** A claim, and whether it is true. */
  check(holds: boolean, text: string, ms?: number): void {
    if (holds) this.#passed++
    else this.#failed++
    const mark = holds ? this.#paint(GREEN, '✓') : this.#paint(RED, '✗')
    this.out.write(`  ${mark} ${text}${ms === undefined ? '' : this.#paint(DIM, `   ${this.time(ms)}`)}\n`)
  }

  time(ms: number): string {
    return ms < 1000 ? `${Math.round(ms)} ms` : `${(ms / 1000).toFixed(1)} s`
  }

  /** The last line; gives the exit code. */
  end(broke: unknown): number {
    const took = this.time(performance.now() - this.#began)
    if (broke) {
      this.out.write(`\n  ${this.#paint(RED, '✗')} it broke off: ${broke instanceof Error ? broke.message : String(broke)}\n`)
      return 1
    }
    const sum = this.#failed === 0 ? this.#paint(GREEN, `all ${this.#passed} as promised`) : this.#paint(RED, `${this.#failed} of ${this.#passed + this.#failed} not as promised`)
    this.out.write(`\n${sum}, in ${took}\n`)
    return this.#failed === 0 ? 0 : 1
  }

  #paint(code: string, text: string): string {
    return this.#colour ? `\x1b[${code}m${text}\x1b[0m` : text
  }
}
