// A real Valkey of a test's own, on a unix socket in a directory of its own. It flushes before it answers, so that a kill -9 loses
// nothing that was acknowledged.

import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { homedir, tmpdir } from 'node:os'
import { join } from 'node:path'
import { Redis } from 'ioredis'

/** $PANNIER_VALKEY_SERVER, what scripts/valkey put in the cache directory, or what is on PATH. */
function server(): string {
  const cached = join(process.env.XDG_CACHE_HOME ?? join(homedir(), '.cache'), 'pannier/bin/valkey-server')
  return process.env.PANNIER_VALKEY_SERVER ?? (existsSync(cached) ? cached : 'valkey-server')
}

export class Valkey {
  readonly folder = mkdtempSync(join(tmpdir(), 'pannier-valkey-'))
  readonly socket = join(this.folder, 'v.sock')
  #child!: ChildProcess
  #client: Redis | undefined

  private constructor(private readonly args: string[]) {}

  static async start(args: string[] = []): Promise<Valkey> {
    const valkey = new Valkey(args)
    await valkey.run()
    return valkey
  }

  get url(): string {
    return `unix://${this.socket}`
  }

  /** A plain client, to look behind the sidecar. */
  get client(): Redis {
    if (this.#client === undefined) {
      this.#client = new Redis({ path: this.socket, maxRetriesPerRequest: null, retryStrategy: () => 50 })
      // It connects again by itself; commands wait.
      this.#client.on('error', () => {})
    }
    return this.#client
  }

  async run(): Promise<void> {
    const { folder, socket, args } = this
    rmSync(socket, { force: true })
    this.#child = spawn(server(), ['--port', '0', '--unixsocket', socket, '--dir', folder, '--appendonly', 'yes', '--appendfsync', 'always',
      '--maxmemory-policy', 'noeviction', '--save', '', ...args], { stdio: 'ignore' })
    for (let i = 0; ; i++) {
      if ((await this.client.ping().catch(() => '')) === 'PONG') return
      if (i > 500 || this.#child.exitCode !== null) throw new Error('valkey-server did not come up')
      await new Promise(resolve => setTimeout(resolve, 20))
    }
  }

  signal(signal: NodeJS.Signals): void {
    this.#child.kill(signal)
  }

  async kill9(): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return
    const gone = once(this.#child, 'exit')
    this.#child.kill('SIGKILL')
    await gone
  }

  async stop(): Promise<void> {
    this.#client?.disconnect()
    await this.kill9()
    rmSync(this.folder, { recursive: true, force: true })
  }
}
