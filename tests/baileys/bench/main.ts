// The Baileys store comparison: the same trace through every store, in turns on one Valkey. See README.md for the options.
import { execFileSync } from 'node:child_process'
import { writeFile } from 'node:fs/promises'
import { cpus, loadavg } from 'node:os'
import { parseArgs } from 'node:util'
import { type Fsync, Valkey, valkeyServer } from '../src/valkey.js'
import { residentBytes } from './process-stats.js'
import { replay } from './replay.js'
import { type Result, type Sample, table } from './report.js'
import { files } from './stores/files.js'
import { hset, hsetCached, multi, multiCached } from './stores/ioredis.js'
import { memory } from './stores/memory.js'
import { pannier } from './stores/pannier.js'
import type { Contender, Setup } from './stores/store.js'
import { loadTrace, type Op, type TraceName, TRACES } from './trace.js'
import { asked, keyBytes, resetStats } from './valkey-stats.js'

const SETUPS: Record<string, Setup> = { multi, 'multi-cached': multiCached, hset, 'hset-cached': hsetCached, files, memory, pannier }

const { values: options } = parseArgs({
  options: {
    trace: { type: 'string', multiple: true, default: [...TRACES] },
    fsync: { type: 'string', multiple: true, default: ['everysec', 'always'] },
    store: { type: 'string', multiple: true, default: Object.keys(SETUPS) },
    rounds: { type: 'string', default: '5' },
    'file-rounds': { type: 'string', default: '2' },
    seed: { type: 'string', default: '1' },
    json: { type: 'string' },
  },
})

async function round(contender: Contender, valkey: Valkey, trace: Op[], seed: number): Promise<Sample> {
  const redis = valkey.client()
  const store = await contender.open('bench')
  const processes = contender.processes()
  await resetStats(redis)
  const timing = await replay(trace, store, seed, [valkey.pid, ...processes.map(({ pid }) => pid)])
  const { roundTrips, commands } = await asked(redis)
  const sample: Sample = {
    wallMs: timing.wallMs,
    nodeCpuMs: timing.nodeCpuMs,
    valkeyCpuMs: timing.cpuMs.get(valkey.pid) ?? 0,
    sidecarCpuMs: processes.reduce((sum, { pid }) => sum + (timing.cpuMs.get(pid) ?? 0), 0),
    roundTrips,
    commands,
    keyBytes: contender.keptIn === 'valkey' ? await keyBytes(redis) : undefined,
    sidecarResidentBytes: processes[0] && (await residentBytes(processes[0].pid)),
  }
  await store.close()
  redis.disconnect()
  return sample
}

/** One run of one store on a fresh, empty Valkey, so that no store pays for what another left behind. */
async function fresh(setup: Setup, fsync: Fsync, trace: Op[], seed: number) {
  const valkey = await Valkey.start({ fsync })
  try {
    const contender = await setup(valkey)
    if (!contender) return undefined
    try {
      const sample = await round(contender, valkey, trace, seed)
      return { name: contender.name, encrypted: contender.encrypted, sample }
    } finally {
      await contender.stop()
    }
  } finally {
    await valkey.stop()
  }
}

async function compare(name: TraceName, fsync: Fsync): Promise<Result> {
  const trace = await loadTrace(name)
  const result: Result = { trace: name, fsync, operations: trace.length, stores: [] }
  const setups = options.store.map(store => {
    const setup = SETUPS[store]
    if (!setup) throw new Error(`no store ${store}: one of ${Object.keys(SETUPS).join(', ')}`)
    return { store, setup }
  })
  for (let n = 0; n < Number(options.rounds); n++) {
    // Every round begins with another store, so none always runs on the warmest or the busiest machine.
    for (let turn = 0; turn < setups.length; turn++) {
      const { store, setup } = setups[(n + turn) % setups.length] ?? {}
      if (!store || !setup || (store === 'files' && n >= Number(options['file-rounds']))) continue
      process.stderr.write(`${name} ${fsync}: round ${n + 1}, ${store} … `)
      const run = await fresh(setup, fsync, trace, Number(options.seed))
      process.stderr.write(run ? `${(run.sample.wallMs / 1_000).toFixed(2)} s\n` : 'not built, left out\n')
      if (!run) continue
      const entry = result.stores.find(({ key }) => key === store)
      if (entry) entry.samples.push(run.sample)
      else result.stores.push({ key: store, name: run.name, encrypted: run.encrypted, samples: [run.sample] })
    }
  }
  result.stores.sort((a, b) => options.store.indexOf(a.key) - options.store.indexOf(b.key))
  return result
}

const results: Result[] = []
// Of the minute before: what else the machine was doing.
const [load] = loadavg()
for (const name of options.trace) {
  for (const fsync of options.fsync) {
    const result = await compare(name as TraceName, fsync as Fsync)
    results.push(result)
    console.log(`${table(result)}\n`)
  }
}
if (options.json) {
  const machine = {
    cpu: cpus()[0]?.model, cores: cpus().length, load, node: process.version,
    valkey: execFileSync(valkeyServer(), ['--version']).toString().trim(), baileys: '7.0.0-rc14', date: new Date().toISOString(),
  }
  await writeFile(options.json, JSON.stringify({ machine, results }, null, 2))
}
