// Workers while sidecars are killed and stopped, streams are cut, leases lost. Nothing is lost, and no two results of a job count.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterEach, expect, test } from 'vitest'
import { FencedError, type Handler, type Pannier, type PannierError, type Worker, type WorkerOptions } from '../src/index.js'
import { compile } from './support/compile.js'
import { LosingProxy } from './support/proxy.js'
import { pause, until as comesTrue, within } from './support/states.js'
import { type Sidecar, sidecarForEach } from './support/sidecar.js'

let sidecar: Sidecar
let pannier: Pannier
const workers: Worker<never>[] = []
sidecarForEach(place => ({ sidecar, pannier } = place))
afterEach(async () => {
  sidecar.signal('SIGCONT')
  await Promise.all(workers.splice(0).map(worker => worker.close({ timeout: 2000 })))
})

function work<P>(handler: Handler<P>, options: WorkerOptions = {}, of = pannier): Worker<P> {
  const worker = of.worker<P>('q', handler, options)
  worker.on('problem', () => {})
  workers.push(worker)
  return worker
}

const until = (what: string, is: () => boolean | Promise<boolean>, ms = 20_000): Promise<void> => comesTrue(what, is, ms)
const totals = async (): Promise<Record<string, number>> => ({ ...((await pannier.schedule.getQueue('q', { timeout: '30s' }))?.totals ?? expect.fail('no queue')) })

test('the sidecar is killed again and again: every job is done, no handler runs twice, for its lease goes on', async () => {
  const JOBS = 600
  await pannier.schedule.enqueueBatch('q', Array.from({ length: JOBS }, (_, n) => ({ payload: n })))
  const runs = new Map<number, number>()
  let completed = 0
  const worker = work<number>(async job => {
    runs.set(job.payload, (runs.get(job.payload) ?? 0) + 1)
    await pause(20 + Math.random() * 40)
  }, { concurrency: 10, lease: '5s' })
  worker.on('completed', () => completed++)
  for (let n = 0; n < 5; n++) {
    await pause(200 + Math.random() * 200)
    await sidecar.restart()
  }
  await until('all done', async () => (await totals()).done === JOBS, 60_000)
  await until('all told', () => completed === JOBS)
  expect([...runs.values()].filter(n => n !== 1)).toEqual([])
  // Jobs that were on their way to the worker when the sidecar died come again when their lease ends.
  expect((await totals()).leasesLost).toBeLessThanOrEqual(5 * 10)
}, 120_000)

test('a handler that runs while the sidecar is killed keeps its lease on the next stream, and its end counts', async () => {
  await pannier.schedule.enqueue('q', { id: 'a', retry: { maxAttempts: 1 } })
  const statuses: string[] = []
  const attempts: number[] = []
  let aborted = false
  const worker = work(async (job, { signal }) => {
    attempts.push(job.attempt)
    signal.addEventListener('abort', () => (aborted = true))
    await pause(4500)
    return 'ended'
  }, { lease: '2s' })
  worker.on('status', status => statuses.push(status))
  await until('it runs', () => attempts.length === 1)
  await pause(100)
  await sidecar.restart()
  await until('done', async () => (await pannier.schedule.get('q', 'a', { timeout: '20s' }))?.state === 'done')
  expect(await pannier.schedule.get('q', 'a')).toMatchObject({ result: 'ended', attempts: 1 })
  expect([attempts, aborted]).toEqual([[1], false])
  expect(statuses).toEqual(['working', 'connecting', 'working'])
})

test('the answer to a settle is lost with its stream: it is said again, and counts once', async () => {
  const proxy = await LosingProxy.start(join(sidecar.folder, 'run/proxy.sock'), sidecar.address.slice(5))
  const through = await sidecar.connect({ address: proxy.address })
  const ended: string[] = []
  const runs: string[] = []
  const worker = work(async job => {
    runs.push(`${job.id} ${job.attempt}`)
    await pause(50)
    proxy.loseNext()
    if (job.id === 'fails') throw new Error('once')
  }, {}, through)
  worker.on('completed', job => ended.push(`completed ${job.id}`))
  worker.on('failed', (job, _error, { retried }) => ended.push(`failed ${job.id} ${retried}`))
  await pannier.schedule.enqueue('q', { id: 'does', retry: { maxAttempts: 1 } })
  await until('told', () => ended.length === 1)
  await pannier.schedule.enqueue('q', { id: 'fails', retry: { maxAttempts: 1 } })
  await until('told', () => ended.length === 2)
  expect(runs).toEqual(['does 1', 'fails 1'])
  expect(ended).toEqual(['completed does', 'failed fails false'])
  expect(proxy.lost).toBe(2)
  expect(await totals()).toMatchObject({ done: 1, dead: 1, leasesLost: 0 })
  await worker.close()
  proxy.stop()
})

test('a stream is cut while jobs come in: each ends once', async () => {
  const proxy = await LosingProxy.start(join(sidecar.folder, 'run/proxy.sock'), sidecar.address.slice(5))
  const through = await sidecar.connect({ address: proxy.address })
  const JOBS = 1000
  await pannier.schedule.enqueueBatch('q', Array.from({ length: JOBS }, (_, n) => ({ payload: n })))
  const ended: number[] = []
  const worker = work<number>(() => pause(1), { concurrency: 20, lease: '1s' }, through)
  worker.on('completed', job => ended.push(job.payload))
  const cutting = (async () => {
    for (let n = 0; n < 6; n++) {
      await pause(60)
      proxy.loseNext()
    }
  })()
  await until('all done', async () => (await totals()).done === JOBS, 40_000)
  await cutting
  await until('all told', () => ended.length === JOBS)
  expect(new Set(ended).size).toBe(JOBS)
  await worker.close()
  proxy.stop()
}, 90_000)

// bullmq#3183, #1497, #596, #489, bull#308: a lease lost while the handler runs.
test('a lease that cannot be renewed aborts the signal; when another worker has had the job, the first one is told so', async () => {
  await pannier.schedule.enqueue('q', { id: 'a' })
  const [first, second] = [await sidecar.connect(), await sidecar.connect()]
  let reason: unknown
  const lost: string[] = []
  let end!: () => void
  const held = new Promise<void>(resolve => (end = resolve))
  const one = work(async (_job, { signal }) => {
    signal.addEventListener('abort', () => (reason = signal.reason as unknown))
    await held
    return 'the first'
  }, { lease: '1s' }, first)
  one.on('leaseLost', job => lost.push(job.id))
  await until('it runs', () => one.running === 1)
  // Its sidecar stands still for longer than its lease.
  sidecar.signal('SIGSTOP')
  await until('aborted', () => reason !== undefined, 5000)
  expect(reason).toBeInstanceOf(FencedError)
  sidecar.signal('SIGCONT')
  const two = work(() => 'the second', {}, second)
  await until('done by the second', async () => (await pannier.schedule.get('q', 'a', { timeout: '20s' }))?.state === 'done')
  end()
  await until('told', () => lost.length === 1)
  expect(lost).toEqual(['a'])
  expect(await pannier.schedule.get('q', 'a')).toMatchObject({ state: 'done', result: 'the second', attempts: 2 })
  await Promise.all([one.close(), two.close()])
})

test('a worker that stood still past its lease learns it, and its end does not count', async () => {
  await pannier.schedule.enqueue('q', { id: 'a' })
  const runs: number[] = []
  const lost: number[] = []
  const worker = work(job => {
    runs.push(job.attempt)
    if (job.attempt > 1) return 'the second'
    // As a process that was stopped, or busy: nothing of it runs meanwhile.
    const until = performance.now() + 2600
    while (performance.now() < until);
    return 'the first'
  }, { lease: '1s', concurrency: 2 })
  worker.on('leaseLost', job => lost.push(job.attempt))
  await until('the second one is done', async () => (await pannier.schedule.get('q', 'a'))?.state === 'done')
  expect(await pannier.schedule.get('q', 'a')).toMatchObject({ result: 'the second', attempts: 2 })
  expect([runs, lost]).toEqual([[1, 2], [1]])
})

// bullmq#892, #651: a job that kills its worker costs an attempt each time, and is dead when there are none left, not before.
test('a job that kills its process at once is dead after its attempts', async () => {
  const root = fileURLToPath(new URL('..', import.meta.url))
  const out = mkdtempSync(join(root, 'node_modules/.pannier-'))
  try {
    compile(join(root, 'src'), out)
    await pannier.schedule.enqueue('q', { id: 'poison', retry: { maxAttempts: 3, base: 100 } })
    const script = `
      import { connect } from ${JSON.stringify(join(out, 'index.js'))}
      const pannier = await connect({ address: ${JSON.stringify(sidecar.address)} })
      pannier.worker('q', () => process.kill(process.pid, 'SIGKILL'), { lease: '1s' })`
    const deadline = performance.now() + 40_000
    let kills = 0
    while ((await pannier.schedule.get('q', 'poison'))?.state !== 'dead') {
      if (performance.now() > deadline) expect.fail('it is not dead')
      const child = spawn(process.execPath, ['--input-type=module', '-e', script], { stdio: 'ignore' })
      const dead = until('dead', async () => (await pannier.schedule.get('q', 'poison'))?.state === 'dead', 30_000)
      await Promise.race([once(child, 'exit'), dead])
      if (child.exitCode === null && child.signalCode === null) child.kill('SIGKILL')
      else kills++
      dead.catch(() => {})
    }
    expect(kills).toBe(3)
    expect(await pannier.schedule.get('q', 'poison')).toMatchObject({ deadReason: 'attempts', attempts: 3 })
  } finally {
    rmSync(out, { recursive: true, force: true })
  }
}, 60_000)

test('the sidecar stops in order and another one comes: what runs goes on, no attempt is counted', async () => {
  const JOBS = 300
  await pannier.schedule.enqueueBatch('q', Array.from({ length: JOBS }, (_, n) => ({ payload: n, retry: { maxAttempts: 1 } })))
  const runs = new Map<number, number>()
  work<number>(async job => {
    runs.set(job.payload, (runs.get(job.payload) ?? 0) + 1)
    await pause(20)
  }, { concurrency: 10 })
  await until('some are done', () => runs.size > 50)
  const exited = sidecar.exited()
  sidecar.signal('SIGTERM')
  await within(20_000, exited)
  sidecar.run()
  await until('all done', async () => (await totals()).done === JOBS, 60_000)
  expect([...runs.values()].filter(n => n !== 1)).toEqual([])
  expect(await totals()).toMatchObject({ dead: 0, leasesLost: 0, leased: JOBS + ((await totals()).released ?? 0) })
}, 90_000)

test('Valkey is killed and comes again: jobs go on', async () => {
  const JOBS = 200
  await pannier.schedule.enqueueBatch('q', Array.from({ length: JOBS }, (_, n) => ({ payload: n })))
  const ended = new Set<number>()
  const worker = work<number>(() => pause(20), { concurrency: 5 })
  worker.on('completed', job => ended.add(job.payload))
  await until('some are done', () => ended.size > 20)
  await sidecar.valkey.kill9()
  await pause(300)
  await sidecar.valkey.run()
  await until('all done', () => ended.size === JOBS, 60_000)
  expect(await totals()).toMatchObject({ done: JOBS, dead: 0 })
}, 90_000)

test('while the sidecar is away: enqueue ends by its deadline, the worker goes on trying, and close ends', async () => {
  const problems: PannierError[] = []
  const worker = work(() => {}, { concurrency: 3 })
  worker.on('problem', problem => problems.push(problem))
  await until('it works', () => worker.status === 'working')
  await sidecar.kill9()
  const started = performance.now()
  await expect(pannier.schedule.enqueue('q', {}, { timeout: 500 })).rejects.toMatchObject({ reason: 'SIDECAR_UNREACHABLE' })
  await expect(pannier.schedule.getQueue('q', { timeout: 500 })).rejects.toMatchObject({ code: /UNAVAILABLE|DEADLINE_EXCEEDED/ })
  expect(performance.now() - started).toBeLessThan(5000)
  await until('it tries', () => problems.length >= 3)
  expect([worker.status, problems.every(({ reason }) => reason === 'SIDECAR_UNREACHABLE' || reason === 'DRAINING')]).toEqual(['connecting', true])
  await within(2000, worker.close())
  expect(worker.status).toBe('closed')
})

test('while the sidecar hangs: calls end by their deadline, outcome unknown; close ends by its timeout', async () => {
  let release!: () => void
  const stuck = new Promise<void>(resolve => (release = resolve))
  await pannier.schedule.enqueue('q', {})
  const worker = work(() => stuck)
  await until('it runs', () => worker.running === 1)
  sidecar.signal('SIGSTOP')
  await pause(100)
  const started = performance.now()
  const failed = await pannier.schedule.enqueue('q', {}, { timeout: 400 }).then(() => expect.fail(), (error: PannierError) => error)
  expect(failed).toMatchObject({ reason: 'DEADLINE_EXCEEDED', outcomeUnknown: true })
  const timeout = 400
  const { schedule } = pannier
  await Promise.all([schedule.ingest('q', [{ dedupKey: 'a' }], { timeout }), schedule.cancel('q', 'a', { timeout }), schedule.enqueueBatch('q', [{}], { timeout })].map(call =>
    expect(call as Promise<unknown>).rejects.toMatchObject({ reason: 'DEADLINE_EXCEEDED', outcomeUnknown: true })))
  await expect(schedule.get('q', 'a', { timeout })).rejects.toMatchObject({ reason: 'DEADLINE_EXCEEDED', outcomeUnknown: false })
  expect(performance.now() - started).toBeLessThan(4500)
  const closing = performance.now()
  await within(6000, worker.close({ timeout: 1000 }))
  expect(performance.now() - closing).toBeLessThan(3000)
  release()
})

test('redelivered messages while the sidecar is killed: each is one job', async () => {
  const keys = Array.from({ length: 300 }, (_, n) => `wamid.${n}`)
  let stop = false
  const killing = (async () => {
    while (!stop) {
      await pause(150 + Math.random() * 200)
      await sidecar.restart()
    }
  })()
  for (let at = 0; at < keys.length; at += 20) {
    // Each comes twice at once, as webhooks do.
    const items = keys.slice(at, at + 20).map(key => ({ dedupKey: key, payload: key }))
    await Promise.all([0, 1].map(() => pannier.schedule.ingest('q', items, { timeout: '30s' })))
    await pause(30)
  }
  stop = true
  await killing
  const seen: string[] = []
  work<string>(job => void seen.push(job.payload), { concurrency: 20 })
  await until('all done', async () => (await totals()).done === keys.length, 30_000)
  expect(seen.sort()).toEqual([...keys].sort())
  expect((await totals()).created).toBe(keys.length)
}, 120_000)
