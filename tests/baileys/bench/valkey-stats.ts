// What Valkey was asked and what it holds.
import type { Redis } from 'ioredis'

export interface Asked {
  /** Times that the server found something to read on a connection: one for each batch that a client sent. */
  roundTrips: number
  /** Calls by command. Commands run by a script or a transaction count too. */
  commands: Record<string, number>
}

const OURS = new Set(['info', 'config|resetstat', 'ping', 'client|setinfo', 'flushall', 'scan', 'memory|usage', 'dbsize'])

export async function resetStats(redis: Redis): Promise<void> {
  await redis.config('RESETSTAT')
}

export async function asked(redis: Redis): Promise<Asked> {
  const info = await redis.info('all')
  const reads = Number(/^total_reads_processed:(\d+)/m.exec(info)?.[1] ?? 0)
  const commands: Record<string, number> = {}
  for (const [, command, calls] of info.matchAll(/^cmdstat_([^:]+):calls=(\d+)/gm)) {
    if (command && !OURS.has(command)) commands[command] = Number(calls)
  }
  return { roundTrips: reads, commands }
}

/** Memory of all keys with their values, as Valkey accounts for them. */
export async function keyBytes(redis: Redis): Promise<number> {
  let bytes = 0
  let cursor = '0'
  do {
    const [next, keys] = await redis.scan(cursor, 'COUNT', 1_000)
    for (const key of keys) bytes += Number(await redis.memory('USAGE', key, 'SAMPLES', 0) ?? 0)
    cursor = next
  } while (cursor !== '0')
  return bytes
}
