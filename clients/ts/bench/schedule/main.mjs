// Jobs with Pannier beside BullMQ: adding, working, how late, and after a crash; in turns on one Valkey. `make bench-schedule`;
// options: --rounds 5 --jobs 4000 --one 1000 --delayed 500 --fsync everysec --recovery --json FILE
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { cpus, loadavg } from 'node:os'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { connect } from '../../dist/index.js'
import { keyBytes, servers } from '../calls/servers.mjs'
import { machine, median, timed } from '../measure.mjs'
import { bullmq, pannier } from './contenders.mjs'

const { values: options } = parseArgs({
  options: {
    rounds: { type: 'string', default: '5' },
    jobs: { type: 'string', default: '4000' },
    one: { type: 'string', default: '1000' },
    delayed: { type: 'string', default: '500' },
    fsync: { type: 'string', default: 'everysec' },
    recovery: { type: 'boolean', default: false },
    json: { type: 'string' },
  },
})
const [ROUNDS, JOBS, ONE, DELAYED] = [options.rounds, options.jobs, options.one, options.delayed].map(Number)
const CONCURRENCY = [1, 50, 100]
const AT_ONCE = 64

const [load] = loadavg()
const env = await servers(options.fsync)
const contenders = [bullmq(env.socket), pannier(await connect({ address: env.address }))]

/** Works on so many jobs of a queue that has them. */
async function process_(queue, count, concurrency) {
  let left = count
  let done
  const all = new Promise(resolve => (done = resolve))
  let stop
  const sample = await timed(env, count, async () => {
    stop = await queue.work(concurrency, async () => {
      if (--left === 0) done()
    })
    await all
  })
  await stop()
  if (left !== 0) throw new Error(`${-left} jobs ran twice`)
  return sample
}

async function fill(queue, count) {
  for (let n = 0; n < count; n += 1000) for (let at = n; at < Math.min(n + 1000, count); at += AT_ONCE) {
    await Promise.all(Array.from({ length: Math.min(AT_ONCE, count - at) }, (_, i) => queue.add(at + i)))
  }
}

async function round(contender, jobs, one) {
  const samples = {}
  {
    const queue = contender.queue()
    samples['add, one by one'] = await timed(env, one, async () => {
      for (let n = 0; n < one; n++) await queue.add(n)
    })
    await queue.close()
  }
  {
    const queue = contender.queue()
    let n = 0
    samples[`add, ${AT_ONCE} at once`] = await timed(env, jobs, () => Promise.all(Array.from({ length: AT_ONCE }, async () => {
      while (n < jobs) await queue.add(n++)
    })))
    await queue.close()
  }
  {
    const queue = contender.queue()
    samples['add, a batch of 1 000'] = await timed(env, 1000, () => queue.addMany(1000))
    await queue.close()
  }
  for (const concurrency of CONCURRENCY) {
    const queue = contender.queue()
    const count = concurrency === 1 ? one : jobs
    await fill(queue, count)
    samples[`work, concurrency ${concurrency}`] = await process_(queue, count, concurrency)
    await queue.close()
  }
  return samples
}

/** How late jobs begin that are due over 5 s, at an idle worker. By this machine's clock, which is the server's too. */
async function lateness(contender) {
  const queue = contender.queue()
  const late = []
  let done
  const all = new Promise(resolve => (done = resolve))
  const due = new Map()
  const stop = await queue.work(50, async job => {
    late.push(Date.now() - due.get(job.id))
    if (late.length === DELAYED) done()
  })
  await Promise.all(Array.from({ length: DELAYED }, (_, n) => {
    const delay = 2000 + Math.floor((n * 5000) / DELAYED)
    due.set(`job-${n}`, Date.now() + delay)
    return queue.add(n, delay)
  }))
  await all
  await stop()
  await queue.close()
  return late.sort((a, b) => a - b)
}

/** ms from a worker's kill -9 until another one has its job, all options at their defaults. */
async function recovery(contender) {
  const queue = contender.queue()
  await queue.add(0)
  const where = contender.name === 'bullmq' ? env.socket : env.address
  const victim = spawn(process.execPath, [fileURLToPath(new URL('victim.mjs', import.meta.url)), contender.name, where, queue.id], { stdio: ['ignore', 'pipe', 'ignore'] })
  await once(victim.stdout, 'data')
  let done
  const again = new Promise(resolve => (done = resolve))
  const stop = await queue.work(1, async () => done())
  const killed = performance.now()
  victim.kill('SIGKILL')
  await again
  const ms = performance.now() - killed
  await stop()
  await queue.close()
  return ms
}

/** Bytes of one more job that waits, and of one that is done. */
async function bytes(contender) {
  const N = 1000
  const queue = contender.queue()
  await queue.add('warm')
  const empty = await keyBytes(env.redis)
  for (let at = 0; at < N; at += 50) await Promise.all(Array.from({ length: 50 }, (_, n) => queue.add(`0000${at + n}`, 3_600_000)))
  const waiting = await keyBytes(env.redis)
  await queue.close()
  return (waiting.bytes - empty.bytes) / N
}

const samples = {}
for (let n = -1; n < ROUNDS; n++) {
  for (let turn = 0; turn < contenders.length; turn++) {
    // Each round begins with the other one.
    const contender = contenders[(turn + n + 1) % contenders.length]
    const one = await round(contender, n < 0 ? 1000 : JOBS, n < 0 ? 300 : ONE)
    // The first round only warms up.
    if (n >= 0) for (const [what, sample] of Object.entries(one)) ((samples[what] ??= {})[contender.name] ??= []).push(sample)
  }
}

const late = {}
const size = {}
const recovered = {}
for (const contender of contenders) {
  late[contender.name] = await lateness(contender)
  size[contender.name] = await bytes(contender)
}
if (options.recovery) await Promise.all(contenders.map(async contender => (recovered[contender.name] = await recovery(contender))))

console.log(`${cpus()[0]?.model}, ${cpus().length} cores, load ${load.toFixed(1)} before and ${loadavg()[0].toFixed(1)} after; Node ${process.version}; ${env.version}; bullmq 6.7.0; appendfsync ${options.fsync}; medians of ${ROUNDS} rounds\n`)
console.log('| | with | jobs/s (spread) | Node CPU µs a job | sidecar CPU µs | Valkey CPU µs | Pannier × of it, medians | best rounds |')
console.log('| --- | --- | --- | --- | --- | --- | --- | --- |')
for (const [what, by] of Object.entries(samples)) {
  const rows = Object.entries(by).sort(([a]) => (a === 'pannier' ? 1 : -1)).map(([name, list]) => {
    const rates = list.map(({ us }) => 1e6 / us).sort((a, b) => a - b)
    const of = part => median(list.map(sample => sample[part]))
    return { name, rate: 1e6 / of('us'), low: rates[0], high: rates.at(-1), node: of('node'), sidecar: of('sidecar'), valkey: of('valkey') }
  })
  const ours = rows.at(-1)
  for (const row of rows) {
    const ratio = row === ours ? ['', ''] : [(ours.rate / row.rate).toFixed(2), (ours.high / row.high).toFixed(2)]
    console.log(`| ${what} | ${row.name} | ${row.rate.toFixed(0)} (${row.low.toFixed(0)}–${row.high.toFixed(0)}) | ${row.node.toFixed(1)} | ${row === ours ? row.sidecar.toFixed(1) : '–'} | ${row.valkey.toFixed(1)} | ${ratio.join(' | ')} |`)
  }
}
console.log('\n| | ' + contenders.map(({ name }) => name).join(' | ') + ' | ratio |\n| --- | --- | --- | --- |')
const line = (what, of, digits = 0) => {
  const [theirs, ours] = contenders.map(of)
  console.log(`| ${what} | ${theirs.toFixed(digits)} | ${ours.toFixed(digits)} | ${(ours / theirs).toFixed(2)} |`)
}
for (const part of [0.5, 0.99]) line(`${DELAYED} delayed jobs: late by, ms, p${part * 100}`, ({ name }) => late[name][Math.min(DELAYED - 1, Math.floor(DELAYED * part))])
line('bytes of a delayed job in Valkey', ({ name }) => size[name])
if (options.recovery) line('ms from kill -9 to the next start, defaults', ({ name }) => recovered[name])

if (options.json) {
  writeFileSync(options.json, JSON.stringify({ machine: machine(env, options.fsync, load), samples, late, size, recovered }, null, 2))
}
for (const contender of contenders) await contender.close()
env.stop()
process.exit(0)
