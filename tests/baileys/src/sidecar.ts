// The Pannier sidecar as a child process on a Valkey of ours, to be killed and started again at will.
import { type ChildProcess, spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Valkey } from './valkey.js'

/** $PANNIER_BIN, else what cargo built; undefined when nothing is built. */
export function sidecarBinary(): string | undefined {
  // From the sources as well as from the compiled copy below `dist`.
  const roots = ['../../../', '../../../../'].map(path => fileURLToPath(new URL(path, import.meta.url)))
  const built = roots.flatMap(root => ['release', 'debug'].map(profile => join(root, 'target', profile, 'pannier')))
  return [process.env['PANNIER_BIN'], ...built].find(path => path !== undefined && existsSync(path))
}

export class Sidecar {
  #process!: ChildProcess

  private constructor(private readonly binary: string, private readonly valkey: Valkey) {}

  static async start(valkey: Valkey, binary = sidecarBinary()): Promise<Sidecar> {
    if (!binary) throw new Error('no pannier binary: cargo build, or set PANNIER_BIN')
    const sidecar = new Sidecar(binary, valkey)
    await sidecar.#command(['keys', 'init', '--keyring', sidecar.#keyring])
    sidecar.run(['--init'])
    return sidecar
  }

  get address(): string {
    return `unix:${join(this.valkey.folder, 'pannier', 'pannier.sock')}`
  }

  get pid(): number {
    return this.#process.pid ?? 0
  }

  get #keyring(): string {
    return join(this.valkey.folder, 'keyring.toml')
  }

  /** Starts it (again); clients wait until it serves. */
  run(more: string[] = []): void {
    this.#process = spawn(this.binary, [
      'serve', '--env', 'test', '--valkey-url', `unix://${this.valkey.socket}`, '--keyring', this.#keyring,
      '--socket', this.address.slice('unix:'.length), '--log-level', 'warn', ...more,
    ], { stdio: ['ignore', 'ignore', 'inherit'] })
  }

  /** kill -9, and waits until it is gone. */
  async kill(): Promise<void> {
    if (this.#process.exitCode !== null || this.#process.signalCode !== null) return
    const gone = new Promise(resolve => this.#process.once('exit', resolve))
    this.#process.kill('SIGKILL')
    await gone
  }

  async #command(args: string[]): Promise<void> {
    const child = spawn(this.binary, args, { stdio: ['ignore', 'ignore', 'inherit'] })
    const code = await new Promise(resolve => child.once('exit', resolve))
    if (code !== 0) throw new Error(`pannier ${args[0]} ${args[1] ?? ''} exited with ${code}`)
  }
}
