// The built sidecar on a Valkey of its own, killed and started again at will. Nothing here stands in for either.

import { spawn, spawnSync, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdirSync, mkdtempSync, openSync, readFileSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, afterEach, beforeAll, beforeEach } from 'vitest'
import { connect, type ConnectOptions } from '../../src/index.js'
import type { Pannier } from '../../src/pannier.js'
import { Valkey } from './valkey.js'

export function binary(): string {
  const targets = [process.env.CARGO_TARGET_DIR, fileURLToPath(new URL('../../../../target', import.meta.url))]
  const built = targets.flatMap(target => (target ? [join(target, 'release/pannier'), join(target, 'debug/pannier')] : []))
  const found = [process.env.PANNIER_BIN, ...built].find(path => path && existsSync(path))
  if (!found) throw new Error('there is no pannier binary: run `cargo build`, or set PANNIER_BIN')
  return found
}

function standsStill(pid: number): void {
  const tasks = `/proc/${pid}/task`
  const runs = (task: string) => !/\) [Tt] [^)]*$/.test(readFileSync(join(tasks, task, 'stat'), 'utf8'))
  const deadline = performance.now() + 5000
  while (existsSync(tasks) && readdirSync(tasks).some(runs)) {
    if (performance.now() > deadline) throw new Error(`process ${pid} does not stop`)
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1)
  }
}

export interface SidecarOptions {
  valkey?: string[]
  args?: string[]
}

/** What most tests work with. */
export interface Place {
  sidecar: Sidecar
  pannier: Pannier
}

/** One sidecar, with a connection to it, for all tests of a file: `use` is told before the first. */
export function sidecarForAll(use: (place: Place) => void, options?: SidecarOptions): void {
  const { start, stop } = placeOf(use, options)
  beforeAll(start)
  afterAll(stop)
}

/** One for each test of a file. */
export function sidecarForEach(use: (place: Place) => void): void {
  const { start, stop } = placeOf(use)
  beforeEach(start)
  afterEach(stop)
}

function placeOf(use: (place: Place) => void, options?: SidecarOptions): { start: () => Promise<void>; stop: () => Promise<void> | undefined } {
  let sidecar: Sidecar | undefined
  return {
    start: async () => {
      sidecar = await Sidecar.start(options)
      use({ sidecar, pannier: await sidecar.connect() })
    },
    stop: () => sidecar?.stop(),
  }
}

export class Sidecar {
  readonly folder = mkdtempSync(join(tmpdir(), 'pannier-ts-'))
  readonly address = `unix:${join(this.folder, 'run/pannier.sock')}`
  #child!: ChildProcess
  #starts = 0
  readonly #connections: Pannier[] = []

  private constructor(
    readonly valkey: Valkey,
    private readonly args: string[],
  ) {}

  static async start(options: SidecarOptions = {}): Promise<Sidecar> {
    const sidecar = new Sidecar(await Valkey.start(options.valkey), options.args ?? [])
    for (const name of ['run', 'data']) mkdirSync(join(sidecar.folder, name), { mode: 0o700 })
    const made = spawnSync(binary(), ['keys', 'init', '--keyring', sidecar.#keyring], { encoding: 'utf8' })
    if (made.status !== 0) throw new Error(`keys init: ${made.stderr}`)
    sidecar.run()
    return sidecar
  }

  get #keyring(): string {
    return join(this.folder, 'data/keyring.toml')
  }

  /** Starts it; clients wait until it serves. */
  run(): void {
    const log = openSync(join(this.folder, 'log'), 'a')
    const first = this.#starts++ === 0 ? ['--init'] : []
    this.#child = spawn(
      binary(),
      ['serve', '--env', 'test', '--valkey-url', this.valkey.url, '--keyring', this.#keyring, '--socket', this.address.slice(5),
        '--log-format', 'json', '--log-level', 'debug', ...first, ...this.args],
      { stdio: ['ignore', log, log] },
    )
  }

  async connect(options: ConnectOptions = {}): Promise<Pannier> {
    const pannier = await connect({ address: this.address, ...options })
    this.#connections.push(pannier)
    return pannier
  }

  get pid(): number {
    return this.#child.pid ?? 0
  }

  /** Of SIGSTOP it waits until no thread runs any more: one that does may still answer. */
  signal(signal: NodeJS.Signals): void {
    this.#child.kill(signal)
    if (signal === 'SIGSTOP') standsStill(this.pid)
  }

  async kill9(): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return
    const gone = once(this.#child, 'exit')
    this.#child.kill('SIGKILL')
    await gone
  }

  /** Settles when it has ended. */
  async exited(): Promise<void> {
    await once(this.#child, 'exit')
  }

  async restart(): Promise<void> {
    await this.kill9()
    this.run()
  }

  logs(): string {
    return readFileSync(join(this.folder, 'log'), 'utf8')
  }

  async stop(): Promise<void> {
    this.signal('SIGCONT')
    this.valkey.signal('SIGCONT')
    await Promise.all(this.#connections.map(pannier => pannier.close({ timeout: 2000 })))
    await this.kill9()
    await this.valkey.stop()
    rmSync(this.folder, { recursive: true, force: true })
  }
}
