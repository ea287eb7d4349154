// Runs a trace through a store, one operation after the other as Baileys waits for them, and checks every read. Only the
// operations count: making up values before and comparing after stop the clock.
import type { SignalDataSet } from 'baileys'
import { Random } from '../src/random.js'
import { cpuMs } from './process-stats.js'
import type { OpenStore } from './stores/store.js'
import type { Op } from './trace.js'
import { bufferJson, makeCreds, makeValue } from './values.js'

/** Operations between two stops of the clock: so few that their values do not outlive the collector's first look, as a bot's do not. */
const CHUNK = 100

export interface Timing {
  wallMs: number
  /** This process, garbage collection included. */
  nodeCpuMs: number
  /** By pid, of the other processes. */
  cpuMs: Map<number, number>
  gets: number
  sets: number
}

interface Read {
  type: string
  id: string
  found: unknown
  expected: string | undefined
}

type Prepared =
  | { op: 'get'; type: Extract<Op, { op: 'get' }>['t']; ids: string[]; expected: (string | undefined)[] }
  | { op: 'set'; data: SignalDataSet }
  | { op: 'creds'; creds: object }

export async function replay(trace: Op[], store: OpenStore, seed: number, pids: number[]): Promise<Timing> {
  const random = new Random(seed)
  const stored = new Map<string, string>()
  const timing: Timing = { wallMs: 0, nodeCpuMs: 0, cpuMs: new Map(pids.map(pid => [pid, 0])), gets: 0, sets: 0 }
  for (let at = 0; at < trace.length; at += CHUNK) {
    const chunk = trace.slice(at, at + CHUNK).map(op => prepare(op, stored, random))
    tidy()
    const before = await Promise.all(pids.map(cpuMs))
    const ownBefore = process.cpuUsage()
    const started = performance.now()
    const reads = await run(chunk, store, timing)
    if (at + CHUNK >= trace.length) await store.flush()
    timing.wallMs += performance.now() - started
    const own = process.cpuUsage(ownBefore)
    timing.nodeCpuMs += (own.user + own.system) / 1_000
    const after = await Promise.all(pids.map(cpuMs))
    pids.forEach((pid, n) => timing.cpuMs.set(pid, (timing.cpuMs.get(pid) ?? 0) + (after[n] ?? 0) - (before[n] ?? 0)))
    check(reads, at)
  }
  return timing
}

/** Lets no store pay for collecting what the replay itself made: two of these move all of it out of the young generation. */
function tidy(): void {
  for (let n = 0; n < 2; n++) (globalThis as { gc?: (options: object) => void }).gc?.({ type: 'minor' })
}

/** Makes up what is written, and notes what each read must give. */
function prepare(op: Op, stored: Map<string, string>, random: Random): Prepared {
  switch (op.op) {
    case 'creds': return { op: 'creds', creds: makeCreds(op.size, random) }
    case 'get': return { op: 'get', type: op.t, ids: op.ids, expected: op.ids.map(id => stored.get(`${op.t}\0${id}`)) }
    case 'set': {
      const data: Record<string, Record<string, unknown>> = {}
      for (const [type, sizes] of Object.entries(op.d)) {
        const values: Record<string, unknown> = (data[type] = {})
        for (const [id, size] of Object.entries(sizes)) {
          values[id] = size === null ? null : makeValue(type as keyof typeof op.d, size, random)
          if (size === null) stored.delete(`${type}\0${id}`)
          else stored.set(`${type}\0${id}`, bufferJson(values[id]))
        }
      }
      return { op: 'set', data: data as SignalDataSet }
    }
  }
}

async function run(chunk: Prepared[], { state, saveCreds }: OpenStore, timing: Timing): Promise<Read[]> {
  const reads: Read[] = []
  for (const op of chunk) {
    if (op.op === 'get') {
      const found: { [id: string]: unknown } = await state.keys.get(op.type, op.ids)
      op.ids.forEach((id, n) => reads.push({ type: op.type, id, found: found[id], expected: op.expected[n] }))
      timing.gets++
    } else {
      if (op.op === 'set') await state.keys.set(op.data)
      else {
        Object.assign(state.creds, op.creds)
        await saveCreds()
      }
      timing.sets++
    }
  }
  return reads
}

function check(reads: Read[], at: number): void {
  for (const { type, id, found, expected } of reads) {
    const text = found ? bufferJson(found) : undefined
    if (text !== expected) {
      throw new Error(`near operation ${at}: ${type} ${id} gave ${text?.length ?? 'nothing'}, ${expected?.length ?? 'nothing'} was written`)
    }
  }
}
