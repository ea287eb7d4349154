// The Pannier sidecar as a child process in a folder of its own, on a Valkey of ours or on the one it starts itself. To be
// killed and started again at will, its Valkey too.
import { Redis } from 'ioredis'
import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { closeSync, existsSync, openSync, readFileSync } from 'node:fs'
import { cp, mkdir, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { endWithUs } from './end-with-us.js'
import { type Valkey, valkeyServer } from './valkey.js'

/** $PANNIER_BIN, else what cargo built; undefined when nothing is built. */
export function sidecarBinary(): string | undefined {
  // From the sources as well as from the compiled copy below `dist`.
  const roots = ['../../../', '../../../../'].map(path => fileURLToPath(new URL(path, import.meta.url)))
  const targets = [process.env['CARGO_TARGET_DIR'] ?? [], ...roots.map(root => join(root, 'target'))].flat()
  const built = targets.flatMap(target => ['release', 'debug'].map(profile => join(target, profile, 'pannier')))
  return [process.env['PANNIER_BIN'], ...built].find(path => path !== undefined && existsSync(path))
}

/** Ours without the sidecar's settings: those are given here. */
const ENVIRONMENT = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith('PANNIER_')))

export interface SidecarOptions {
  /** An external Valkey; without one the sidecar starts and keeps its own. */
  valkey?: Valkey
  args?: string[]
}

export class Sidecar {
  #process!: ChildProcess
  #backups = 0

  private constructor(private readonly binary: string, private readonly folder: string, private readonly options: SidecarOptions) {}

  static async start(options: SidecarOptions = {}): Promise<Sidecar> {
    const binary = sidecarBinary()
    if (!binary) throw new Error('no pannier binary: cargo build, or set PANNIER_BIN')
    const sidecar = new Sidecar(binary, await mkdtemp(join(tmpdir(), 'pannier-')), options)
    await mkdir(sidecar.#data, { mode: 0o700 })
    if (options.valkey) await sidecar.#command(['keys', 'init', '--keyring', sidecar.#keyring])
    sidecar.run(options.valkey ? ['--init'] : [])
    return sidecar
  }

  /** A copy of everything it stores, as a backup would have it. Only of one with a Valkey of its own. */
  async backup(): Promise<string> {
    const folder = join(this.folder, `backup-${++this.#backups}`)
    await cp(this.#data, folder, { recursive: true, filter: path => !path.endsWith('valkey.run') })
    return folder
  }

  /** Kills both, puts Valkey's files of a backup in place, and starts again. */
  async setBack(backup: string): Promise<void> {
    await this.kill()
    await this.killValkey()
    const files = join(this.#data, 'valkey')
    await rm(files, { recursive: true, maxRetries: 5 })
    await cp(join(backup, 'valkey'), files, { recursive: true })
    this.run()
  }

  /** Another sidecar, at an address of its own, on a backup of this one. */
  async startOn(backup: string): Promise<Sidecar> {
    const other = new Sidecar(this.binary, await mkdtemp(join(tmpdir(), 'pannier-')), this.options)
    await cp(backup, other.#data, { recursive: true })
    other.run()
    return other
  }

  get address(): string {
    return `unix:${this.#socket}`
  }

  get pid(): number {
    return this.#process.pid ?? 0
  }

  get #socket(): string {
    return join(this.folder, 'run', 'pannier.sock')
  }

  get #data(): string {
    return join(this.folder, 'data')
  }

  get #keyring(): string {
    return join(this.#data, 'keyring.toml')
  }

  /** Starts it (again); clients wait until it serves. */
  run(more: string[] = []): void {
    const { valkey, args = [] } = this.options
    const output = process.env['SIDECAR_LOG'] ? 'inherit' : openSync(join(this.folder, 'log'), 'a')
    const where = valkey ? ['--env', 'test', '--valkey-url', `unix://${valkey.socket}`] : ['--valkey-server', valkeyServer()]
    this.#process = spawn(this.binary, [
      'serve', '--data-dir', this.#data, '--socket', this.#socket, '--log-level', 'warn', ...where, ...args, ...more,
    ], { stdio: ['ignore', 'ignore', output], env: ENVIRONMENT })
    if (typeof output === 'number') closeSync(output)
    endWithUs(this.#process, () => (valkey ? undefined : this.#ownValkey().pid))
  }

  /** kill -9, and waits until it is gone. Its own Valkey lives on. */
  async kill(): Promise<void> {
    await this.#end('SIGKILL')
  }

  /** kill -9 of Valkey, and waits until it is gone. An external one has to be started again, its own comes back by itself. */
  async killValkey(): Promise<void> {
    if (this.options.valkey) return this.options.valkey.kill()
    // Killed a moment ago, it may not be back yet: the next one is meant.
    for (const until = Date.now() + 10_000; ; ) {
      try {
        process.kill(this.#ownValkey().pid, 'SIGKILL')
        return
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== 'ESRCH' || Date.now() > until) throw error
        await new Promise(resolve => setTimeout(resolve, 20))
      }
    }
  }

  /** A client of its Valkey, to look or meddle behind its back. */
  async valkeyClient(): Promise<Redis> {
    if (this.options.valkey) return this.options.valkey.client()
    return new Redis({ path: this.#ownValkey().socket, retryStrategy: null })
  }

  /** Ends it as an administrator does, and leaves nothing behind. */
  async stop(): Promise<void> {
    await this.#end('SIGTERM')
    await rm(this.folder, { recursive: true, force: true, maxRetries: 5 })
  }

  /** Where it keeps note of the Valkey that it started. */
  #ownValkey(): { pid: number; socket: string } {
    const note = readFileSync(join(this.#data, 'valkey.run'), 'utf8')
    const pid = Number(/^pid = (\d+)/m.exec(note)?.[1])
    const socket = /^socket = "(.+)"/m.exec(note)?.[1]
    if (!pid || !socket) throw new Error('the sidecar has not started a Valkey yet')
    return { pid, socket }
  }

  async #end(signal: NodeJS.Signals): Promise<void> {
    if (this.#process.exitCode !== null || this.#process.signalCode !== null) return
    const gone = new Promise(resolve => this.#process.once('exit', resolve))
    this.#process.kill(signal)
    await gone
  }

  /** Runs a command of the CLI on what it holds; what it prints as data. Rejects with what it says if it fails. */
  async cli(...args: string[]): Promise<string> {
    const { stdout } = await promisify(execFile)(this.binary, [...args, '--address', this.address], { env: ENVIRONMENT })
    return stdout
  }

  async #command(args: string[]): Promise<void> {
    await promisify(execFile)(this.binary, args, { env: ENVIRONMENT })
  }
}
