// A real Valkey server of our own: private directory, unix socket, append-only file.
import { Redis, type RedisOptions } from 'ioredis'
import { type ChildProcess, spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { homedir, tmpdir } from 'node:os'
import { delimiter, join } from 'node:path'
import { endWithUs } from './end-with-us.js'

export type Fsync = 'everysec' | 'always'

/** $PANNIER_VALKEY_SERVER, else valkey-server on PATH or in the cache directory that scripts/valkey fills. */
export function valkeyServer(): string {
  const cache = process.env['XDG_CACHE_HOME'] ?? join(homedir(), '.cache')
  const candidates = [
    process.env['PANNIER_VALKEY_SERVER'],
    ...(process.env['PATH'] ?? '').split(delimiter).map(folder => join(folder, 'valkey-server')),
    join(cache, 'pannier', 'bin', 'valkey-server'),
  ]
  const found = candidates.find(path => path !== undefined && existsSync(path))
  if (!found) throw new Error('no valkey-server: run scripts/valkey, or set PANNIER_VALKEY_SERVER')
  return found
}

export class Valkey {
  #process!: ChildProcess

  private constructor(readonly folder: string, readonly fsync: Fsync) {}

  static async start({ fsync = 'everysec' }: { fsync?: Fsync } = {}): Promise<Valkey> {
    const valkey = new Valkey(await mkdtemp(join(tmpdir(), 'valkey-')), fsync)
    await valkey.run()
    return valkey
  }

  get socket(): string {
    return join(this.folder, 'valkey.sock')
  }

  get pid(): number {
    return this.#process.pid ?? 0
  }

  /** Starts it (again) on the same data, and waits until it answers. */
  async run(): Promise<void> {
    this.#process = spawn(valkeyServer(), [
      '--port', '0', '--unixsocket', this.socket, '--dir', this.folder, '--save', '', '--maxmemory-policy', 'noeviction',
      '--appendonly', 'yes', '--appendfsync', this.fsync, '--loglevel', 'warning',
    ], { stdio: 'ignore' })
    endWithUs(this.#process)
    const client = this.client({ retryStrategy: () => 20, maxRetriesPerRequest: null })
    // Until it listens every attempt fails; only the answer counts.
    client.on('error', () => undefined)
    for (;;) {
      const answer = await client.ping().catch((error: Error) => error.message)
      if (answer === 'PONG') break
      await new Promise(resolve => setTimeout(resolve, 20))
    }
    client.disconnect()
  }

  client(options: RedisOptions = {}): Redis {
    return new Redis({ path: this.socket, ...options })
  }

  /** kill -9, and waits until it is gone. */
  async kill(): Promise<void> {
    if (this.#process.exitCode !== null || this.#process.signalCode !== null) return
    const gone = new Promise(resolve => this.#process.once('exit', resolve))
    this.#process.kill('SIGKILL')
    await gone
  }

  async stop(): Promise<void> {
    await this.kill()
    await rm(this.folder, { recursive: true, force: true })
  }
}
