// An example as a process of its own, started as its README says. Killed as a whole: npm, the shell, what they started.
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

export const EXAMPLES = fileURLToPath(new URL('../../../examples', import.meta.url))

const running = new Set<Example>()
process.once('exit', () => {
  for (const example of running) example.signal('SIGKILL')
})

export interface ExampleOptions {
  env?: Record<string, string>
  /** Default: `npm start`. */
  command?: string[]
}

export class Example {
  /** All that it has printed. */
  output = ''
  readonly #child: ChildProcess
  readonly #gone: Promise<unknown>

  constructor(readonly name: string, { env = {}, command = ['npm', '--silent', 'start'] }: ExampleOptions = {}) {
    const [program = '', ...args] = command
    const clean = Object.fromEntries(Object.entries(process.env).filter(([key]) => !key.startsWith('PANNIER_') && !key.startsWith('npm_')))
    this.#child = spawn(program, args, { cwd: join(EXAMPLES, name), env: { ...clean, ...env }, stdio: ['ignore', 'pipe', 'pipe'], detached: true })
    this.#gone = once(this.#child, 'close')
    running.add(this)
    for (const stream of [this.#child.stdout, this.#child.stderr]) stream?.setEncoding('utf8').on('data', (text: string) => (this.output += text))
  }

  get running(): boolean {
    return this.#child.exitCode === null && this.#child.signalCode === null
  }

  /** To every process of it. */
  signal(signal: NodeJS.Signals): void {
    try {
      process.kill(-(this.#child.pid ?? Number.NaN), signal)
    } catch {
      // It is gone.
    }
  }

  async kill9(): Promise<void> {
    this.signal('SIGKILL')
    await this.#gone
    running.delete(this)
  }

  /** As Ctrl-C does it. Killed where that takes longer than 20 s. */
  async stop(): Promise<void> {
    const late = setTimeout(() => this.signal('SIGKILL'), 20_000)
    this.signal('SIGTERM')
    await this.#gone
    clearTimeout(late)
    running.delete(this)
  }

  /** Waits until it prints something like it; gives what the first group caught. */
  async says(pattern: RegExp, timeoutMs = 30_000): Promise<string> {
    for (const end = Date.now() + timeoutMs; ; ) {
      const found = pattern.exec(this.output)
      if (found) return found[1] ?? found[0]
      if (!this.running) throw new Error(`${this.name} has ended (${this.#child.exitCode ?? this.#child.signalCode}):\n${this.output}`)
      if (Date.now() > end) throw new Error(`${this.name} did not say ${pattern} within ${timeoutMs} ms:\n${this.output}`)
      await new Promise(resolve => setTimeout(resolve, 20))
    }
  }
}
