// A Valkey and a sidecar of the benchmark's own, in a directory of its own.
import { execFileSync, spawn } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { Redis } from 'ioredis'

const root = fileURLToPath(new URL('../../../..', import.meta.url))

function sidecarBinary() {
  const target = process.env.CARGO_TARGET_DIR ?? join(root, 'target')
  const found = [process.env.PANNIER_BIN, join(target, 'release/pannier')].find(path => path && existsSync(path))
  if (!found) throw new Error('there is no pannier binary: run `cargo build --release`, or set PANNIER_BIN')
  return found
}

/** Starts both. `fsync`: Valkey's appendfsync. */
export async function servers(fsync) {
  const folder = mkdtempSync(join(tmpdir(), 'pannier-bench-'))
  const socket = join(folder, 'v.sock')
  const server = process.env.PANNIER_VALKEY_SERVER ?? 'valkey-server'
  const valkey = spawn(server, ['--port', '0', '--unixsocket', socket, '--dir', folder, '--appendonly', 'yes', '--appendfsync', fsync,
    '--maxmemory-policy', 'noeviction', '--save', ''], { stdio: 'ignore' })
  const redis = new Redis({ path: socket, retryStrategy: () => 50, maxRetriesPerRequest: null })
  redis.on('error', () => {})
  await redis.ping()
  for (const name of ['run', 'data']) mkdirSync(join(folder, name), { mode: 0o700 })
  const keyring = join(folder, 'data/keyring.toml')
  const binary = sidecarBinary()
  execFileSync(binary, ['keys', 'init', '--keyring', keyring], { stdio: 'ignore' })
  const address = `unix:${join(folder, 'run/pannier.sock')}`
  const sidecar = spawn(binary, ['serve', '--env', 'bench', '--valkey-url', `unix://${socket}`, '--keyring', keyring, '--socket', address.slice(5),
    '--log-level', 'warn', '--init'], { stdio: ['ignore', 'ignore', 'inherit'] })
  return {
    redis, socket, address, valkeyPid: valkey.pid, sidecarPid: sidecar.pid,
    version: execFileSync(server, ['--version']).toString().trim(),
    stop() {
      redis.disconnect()
      sidecar.kill('SIGKILL')
      valkey.kill('SIGKILL')
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

/** Bytes of all keys, with their values, as Valkey accounts for them. */
export async function keyBytes(redis) {
  let bytes = 0
  let keys = 0
  let cursor = '0'
  do {
    // Names are bytes, not all of them texts.
    const [next, page] = await redis.scanBuffer(cursor, 'COUNT', 1000)
    for (const key of page) bytes += Number(await redis.call('MEMORY', 'USAGE', key, 'SAMPLES', '0'))
    keys += page.length
    cursor = next.toString()
  } while (cursor !== '0')
  return { bytes, keys }
}
