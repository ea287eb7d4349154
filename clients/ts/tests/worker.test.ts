// Workers: what a handler gets, how its end settles the job, and what closing keeps.
import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterEach, expect, test } from 'vitest'
import { FailJob, JobCancelledError, type Job, ReleaseJob, RetryJob, type Handler, type Pannier, type Worker, type WorkerOptions } from '../src/index.js'
import { compile } from './support/compile.js'
import { newName, pause, until, within } from './support/states.js'
import { type Sidecar, sidecarForAll } from './support/sidecar.js'

let sidecar: Sidecar
let pannier: Pannier
const workers: Worker<never>[] = []
sidecarForAll(place => ({ sidecar, pannier } = place))
afterEach(async () => {
  await Promise.all(workers.splice(0).map(worker => worker.close({ timeout: 3000 })))
})

function work<P>(queue: string | string[], handler: Handler<P>, options: WorkerOptions = {}): Worker<P> {
  const worker = pannier.worker<P>(queue, handler, options)
  workers.push(worker)
  return worker
}

test('5 000 jobs at concurrency 50: each runs once, never more than 50 at once', async () => {
  const queue = newName()
  for (let n = 0; n < 5000; n += 1000) await pannier.schedule.enqueueBatch(queue, Array.from({ length: 1000 }, (_, i) => ({ payload: n + i })))
  const seen: number[] = []
  let most = 0
  let now = 0
  let completed = 0
  const worker = work<number>(queue, async job => {
    most = Math.max(most, ++now)
    seen.push(job.payload)
    await pause(1)
    now--
  }, { concurrency: 50 })
  worker.on('completed', () => completed++)
  await until('all done', () => completed === 5000, 60_000)
  expect(seen.sort((a, b) => a - b)).toEqual(Array.from({ length: 5000 }, (_, n) => n))
  expect(most).toBeLessThanOrEqual(50)
  expect(most).toBeGreaterThan(25)
  expect((await pannier.schedule.getQueue(queue))?.totals).toMatchObject({ created: 5000, leased: 5000, done: 5000, leasesLost: 0, retried: 0 })
}, 120_000)

test('a handler gets the job as it was enqueued; what it gives is the result', async () => {
  const queue = newName()
  for (const [n, payload] of [{ waId: '49', ü: [1, null] }, 'text ü', '', new Uint8Array([0, 255]), 0, null, false, undefined].entries()) {
    const before = Date.now()
    await pannier.schedule.enqueue(queue, { id: `j${n}`, ...(payload !== undefined && { payload }), group: `g${n}`, priority: n, retry: { maxAttempts: 7 } })
    const worker = work(queue, job => job.payload)
    const [job, result] = await within(10_000, new Promise<[Job<unknown>, unknown]>(resolve => void worker.on('completed', (...done) => resolve(done))))
    expect(job).toMatchObject({ queue, id: `j${n}`, payload, group: `g${n}`, priority: n, attempt: 1, maxAttempts: 7, lastProgress: undefined })
    expect(result).toEqual(payload)
    for (const time of [job.dueAt, job.leasedAt, job.createdAt]) expect(Math.abs(time.getTime() - before)).toBeLessThan(5000)
    expect(await pannier.schedule.get(queue, `j${n}`)).toMatchObject({ state: 'done', payload, result: payload, attempts: 1 })
    await worker.close()
  }
})

test('one worker serves several queues, and starves none of them', async () => {
  for (let n = 0; n < 25; n++) {
    const queues = [newName(), newName(), newName()]
    const seen: string[] = []
    const worker = work(queues, job => void seen.push(job.queue), { concurrency: 1 + (n % 2), name: 'all' })
    await Promise.all(queues.map(queue => pannier.schedule.enqueue(queue, {})))
    await until('all ran', () => seen.length === 3, 3000)
    expect(seen.sort()).toEqual(queues.sort())
    await worker.close()
  }
})

test('a throwing handler: again after the backoff, then dead with the last error; retryDead gives all attempts anew', async () => {
  const queue = newName()
  const times: number[] = []
  const ends: boolean[] = []
  let heal = false
  const worker = work(queue, job => {
    times.push(performance.now())
    if (!heal) throw new Error(`attempt ${job.attempt} é`)
  })
  worker.on('failed', (_job, error, { retried }) => {
    expect(error).toBeInstanceOf(Error)
    ends.push(retried)
  })
  await pannier.schedule.enqueue(queue, { id: 'r', retry: { maxAttempts: 3, base: 200 } })
  await until('dead', async () => (await pannier.schedule.get(queue, 'r'))?.state === 'dead')
  const [first, second, third] = times as [number, number, number]
  expect(second - first).toBeGreaterThanOrEqual(195)
  expect(third - second).toBeGreaterThanOrEqual(395)
  await until('told', () => ends.length === 3)
  expect(ends).toEqual([true, true, false])
  const dead = await pannier.schedule.get(queue, 'r')
  expect(dead).toMatchObject({ deadReason: 'attempts', attempts: 3 })
  expect(dead?.error).toContain('attempt 3 é')
  // bullmq#3555: a manual retry has a full budget.
  heal = true
  expect(await pannier.schedule.retryDead(queue, { ids: ['r'] })).toBe(1)
  await until('done', async () => (await pannier.schedule.get(queue, 'r'))?.state === 'done')
  // bullmq#1094: no more often than its attempts.
  expect(times).toHaveLength(4)
})

test('FailJob: dead at once. RetryJob: again when it says. Any thrown value counts as a failure', async () => {
  const queue = newName()
  const seen: number[] = []
  work(queue, job => {
    seen.push(performance.now())
    if (job.id === 'fail') throw new FailJob('the number is blocked')
    if (job.id === 'odd') throw Object.create(null) as Error
    if (job.attempt === 1) throw new RetryJob('300ms', 'later')
  })
  await pannier.schedule.enqueue(queue, { id: 'fail' })
  await until('dead', async () => (await pannier.schedule.get(queue, 'fail'))?.state === 'dead')
  expect(await pannier.schedule.get(queue, 'fail')).toMatchObject({ deadReason: 'failed', attempts: 1 })
  await pannier.schedule.enqueue(queue, { id: 'odd', retry: { maxAttempts: 1 } })
  await until('dead', async () => (await pannier.schedule.get(queue, 'odd'))?.deadReason === 'attempts')
  seen.length = 0
  await pannier.schedule.enqueue(queue, { id: 'retry' })
  await until('done', async () => (await pannier.schedule.get(queue, 'retry'))?.state === 'done')
  expect((seen[1] ?? 0) - (seen[0] ?? 0)).toBeGreaterThanOrEqual(295)
})

// bullmq#3000, #2403: a job that is put off counts no attempt; at once is at once.
test('ReleaseJob ten times with one attempt allowed: the attempt stays 1, and the job is done in the end', async () => {
  const queue = newName()
  const attempts: number[] = []
  work(queue, job => {
    attempts.push(job.attempt)
    if (attempts.length <= 10) throw new ReleaseJob(attempts.length % 2 ? 0 : 20)
  })
  await pannier.schedule.enqueue(queue, { id: 'p', retry: { maxAttempts: 1 } })
  await until('done', async () => (await pannier.schedule.get(queue, 'p'))?.state === 'done')
  expect(attempts).toEqual(Array(11).fill(1))
})

test('cancel of a running job aborts its signal; the handler that throws then leaves it cancelled, one that ends leaves it done', async () => {
  const queue = newName()
  const reasons: unknown[] = []
  work(queue, async (job, { signal }) => {
    await new Promise(resolve => signal.addEventListener('abort', resolve))
    reasons.push(signal.reason)
    if (job.id === 'throws') signal.throwIfAborted()
  }, { concurrency: 2 })
  for (const id of ['throws', 'ends']) await pannier.schedule.enqueue(queue, { id })
  await until('running', async () => (await pannier.schedule.getQueue(queue))?.counts.leased === 2)
  for (const id of ['throws', 'ends']) expect(await pannier.schedule.cancel(queue, id)).toEqual({ outcome: 'cancelRequested' })
  await until('settled', async () => (await pannier.schedule.getQueue(queue))?.counts.leased === 0)
  expect(reasons.map(reason => reason instanceof JobCancelledError)).toEqual([true, true])
  expect((await pannier.schedule.get(queue, 'throws'))?.state).toBe('cancelled')
  expect((await pannier.schedule.get(queue, 'ends'))?.state).toBe('done')
})

test('progress is kept with the job, the newest one; the next attempt sees it', async () => {
  const queue = newName()
  let last: unknown
  work(queue, async job => {
    last = job.lastProgress
    if (job.attempt === 2) return
    expect(() => job.progress('x'.repeat(1025))).toThrow(/1024/)
    for (let n = 0; n <= 150; n++) job.progress({ sent: n })
    await until('kept', async () => JSON.stringify((await pannier.schedule.get(queue, 'p'))?.progress) === '{"sent":150}')
    throw new RetryJob(0)
  })
  await pannier.schedule.enqueue(queue, { id: 'p' })
  await until('done', async () => (await pannier.schedule.get(queue, 'p'))?.state === 'done')
  expect(last).toEqual({ sent: 150 })
})

test('progress said right before the end is kept', async () => {
  const queue = newName()
  work(queue, job => job.progress('nearly'))
  for (let n = 0; n < 20; n++) await pannier.schedule.enqueue(queue, { id: `p${n}` })
  await until('done', async () => (await pannier.schedule.getQueue(queue))?.counts.done === 20)
  for (let n = 0; n < 20; n++) expect((await pannier.schedule.get(queue, `p${n}`))?.progress).toBe('nearly')
})

test('a result that cannot be kept is said; the job is done all the same, and not run again', async () => {
  const queue = newName()
  const problems: string[] = []
  const results: unknown[] = ['x'.repeat(70_000), 1n, () => {}]
  const worker = work<number>(queue, job => results[job.payload])
  worker.on('problem', problem => problems.push(problem.reason))
  for (const n of results.keys()) await pannier.schedule.enqueue(queue, { id: `r${n}`, payload: n })
  await until('done', async () => (await pannier.schedule.getQueue(queue))?.counts.done === 3)
  expect(problems).toEqual(['TOO_LARGE', 'BAD_FIELD', 'BAD_FIELD'])
  expect(await pannier.schedule.get(queue, 'r0')).toMatchObject({ state: 'done', result: undefined, attempts: 1 })
})

test('listeners and rejections disturb nobody', async () => {
  const queue = newName()
  const worker = work(queue, () => Promise.reject(new FailJob('no')))
  worker.on('failed', () => {
    throw new Error('a bad listener')
  })
  const rejects: unknown = () => Promise.reject(new Error('a worse one'))
  worker.on('failed', rejects as () => void)
  for (let n = 0; n < 3; n++) await pannier.schedule.enqueue(queue, {})
  await until('all dead', async () => (await pannier.schedule.getQueue(queue))?.counts.dead === 3)
  expect(() => worker.on('error' as 'failed', () => {})).toThrow(/no event "error"/)
})

// bullmq#834, #4163; OptimalBits/bull#1615, #2714: closing waits for what runs, failing jobs too, and renews their leases meanwhile.
test('close: takes no more, lets ten running ones end (five fail), loses nothing and counts no attempt', async () => {
  const queue = newName()
  for (let n = 0; n < 100; n++) await pannier.schedule.enqueue(queue, { id: `j${n}`, retry: { maxAttempts: 1 } })
  let started = 0
  const worker = work(queue, async () => {
    const fails = ++started % 2 === 0
    await pause(1500)
    if (fails) throw new Error('it fails')
  }, { concurrency: 10, lease: '1s' })
  await until('ten run', () => started === 10)
  const closing = worker.close()
  expect(worker.status).toBe('draining')
  expect(worker.close()).toBe(closing)
  await within(10_000, closing)
  expect(worker.status).toBe('closed')
  expect(started).toBe(10)
  const after = await pannier.schedule.getQueue(queue)
  expect(after?.counts).toMatchObject({ ready: 90, leased: 0, done: 5, dead: 5 })
  expect(after?.totals.leasesLost).toBe(0)
  const attempts = new Set<number>()
  for await (const job of pannier.schedule.list(queue, 'ready')) attempts.add(job.attempts)
  expect([...attempts]).toEqual([0])
})

test('close while jobs stream in: each ends exactly once, by this worker or the next; none has two attempts', async () => {
  const queue = newName()
  const runs = new Map<string, number[]>()
  const note: Handler = async job => {
    runs.set(job.id, [...(runs.get(job.id) ?? []), job.attempt])
    await pause(1)
  }
  for (let n = 0; n < 2000; n += 1000) await pannier.schedule.enqueueBatch(queue, Array.from({ length: 1000 }, (_, i) => ({ id: `j${n + i}` })))
  for (let n = 0; n < 12; n++) {
    const worker = work(queue, note, { concurrency: 40 })
    await pause(30 + Math.random() * 40)
    await within(10_000, worker.close())
  }
  const last = work(queue, note, { concurrency: 100 })
  await until('all done', async () => (await pannier.schedule.getQueue(queue))?.totals.done === 2000, 30_000)
  await last.close()
  expect(runs.size).toBe(2000)
  expect([...runs.values()].filter(attempts => attempts.join() !== '1')).toEqual([])
})

test('close that runs out of time: handlers are told, the jobs of those that heed go back uncounted, and it ends', async () => {
  const queue = newName()
  let release!: () => void
  const stuck = new Promise<void>(resolve => (release = resolve))
  const worker = work(queue, async (job, { signal }) => {
    if (job.id === 'deaf') return stuck
    await new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason as Error)))
  }, { concurrency: 2, lease: '2s' })
  await pannier.schedule.enqueueBatch(queue, [{ id: 'heeds', retry: { maxAttempts: 1 } }, { id: 'deaf', retry: { maxAttempts: 2 } }])
  await until('both run', () => worker.running === 2)
  const started = performance.now()
  await within(5000, worker.close({ timeout: 800 }))
  expect(performance.now() - started).toBeLessThan(2500)
  expect(await pannier.schedule.get(queue, 'heeds')).toMatchObject({ state: 'ready', attempts: 0 })
  // The other one comes back when its lease ends.
  expect((await pannier.schedule.get(queue, 'deaf'))?.state).toBe('leased')
  const ran: string[] = []
  work(queue, job => void ran.push(`${job.id} ${job.attempt}`))
  await until('both ran', () => ran.length === 2, 15_000)
  expect(ran.sort()).toEqual(['deaf 2', 'heeds 1'])
  release()
})

test('`await using` closes; closing the connection closes its workers', async () => {
  const queue = newName()
  let ended = 0
  const handler = async (): Promise<void> => {
    await pause(200)
    ended++
  }
  {
    await using worker = pannier.worker(queue, handler)
    await pannier.schedule.enqueue(queue, {})
    await until('it runs', () => worker.running === 1)
  }
  expect(ended).toBe(1)
  const other = await sidecar.connect()
  const worker = other.worker(queue, handler)
  await other.schedule.enqueue(queue, {})
  await until('it runs', () => worker.running === 1)
  await other.close()
  expect([ended, worker.status]).toEqual([2, 'closed'])
  expect(() => other.worker(queue, handler)).toThrow(/closed/)
  expect((await pannier.schedule.getQueue(queue))?.totals).toMatchObject({ done: 2, leasesLost: 0 })
})

test('bad options throw at once, and say what was meant', () => {
  const handler = (): void => {}
  expect(() => pannier.worker('q', handler, { concurency: 5 } as WorkerOptions)).toThrow(/did you mean `concurrency`/)
  expect(() => pannier.worker('q', handler, { concurrency: 1001 })).toThrow(/1\.\.1000/)
  expect(() => pannier.worker('q', handler, { lease: 999 })).toThrow(/1 s/)
  expect(() => pannier.worker([], handler)).toThrow(/1\.\.64/)
  expect(() => pannier.worker(['a', 'a'], handler)).toThrow(/different/)
  expect(() => pannier.worker('', handler)).toThrow(/empty/)
  expect(() => pannier.worker('q', undefined as never)).toThrow(/function/)
})

// OptimalBits/bull#1925, #1755: what comes back keeps its priority.
test('a job of priority 1 that failed goes before those of priority 5', async () => {
  const queue = newName()
  const order: string[] = []
  await pannier.schedule.enqueueBatch(queue, [...Array.from({ length: 5 }, (_, n) => ({ id: `low${n}`, priority: 5 })), { id: 'high', priority: 1 }])
  work(queue, job => {
    order.push(job.id)
    if (job.id === 'high' && job.attempt === 1) throw new RetryJob(0)
  })
  await until('all ran', () => order.length === 7)
  // The next one may have been on its way when the job came back.
  expect(order.indexOf('high', 1)).toBeLessThanOrEqual(2)
})

test('groups: in the order of acceptance, one at a time, over two workers; a failing head holds its followers', async () => {
  const queue = newName()
  const GROUPS = 20
  const jobs = Array.from({ length: 400 }, (_, n) => ({ payload: n, group: `chat${n % GROUPS}`, retry: { base: 20 } }))
  await pannier.schedule.enqueueBatch(queue, jobs)
  const done = new Map<string, number[]>()
  const busy = new Set<string>()
  const handler: Handler<number> = async job => {
    const group = job.group ?? ''
    expect(busy.has(group)).toBe(false)
    busy.add(group)
    await pause(Math.random() * 4)
    busy.delete(group)
    if (job.payload % 37 === 0 && job.attempt < 3) throw new Error('not yet')
    done.set(group, [...(done.get(group) ?? []), job.payload])
  }
  const problems: unknown[] = []
  const other = await sidecar.connect()
  const second = other.worker(queue, handler, { concurrency: 8 })
  for (const worker of [work(queue, handler, { concurrency: 8 }), second]) worker.on('failed', (_, error) => String(error).includes('not yet') || problems.push(error))
  await until('all done', async () => (await pannier.schedule.getQueue(queue))?.totals.done === 400, 30_000)
  await second.close()
  expect(problems).toEqual([])
  for (const [group, order] of done) expect([group, order]).toEqual([group, Array.from({ length: 20 }, (_, n) => n * GROUPS + Number(group.slice(4)))])
})

test('a process ends by itself once its worker is closed, and not before', () => {
  const root = fileURLToPath(new URL('..', import.meta.url))
  const out = mkdtempSync(join(root, 'node_modules/.pannier-'))
  try {
    compile(join(root, 'src'), out)
    const script = `
      import { connect } from ${JSON.stringify(join(out, 'index.js'))}
      const pannier = await connect({ address: ${JSON.stringify(sidecar.address)} })
      const worker = pannier.worker('ends', async () => { console.log('ran'); setTimeout(() => worker.close(), 100) })
      await pannier.schedule.enqueue('ends', { delay: 1200 })
      worker.on('status', status => console.log(status))
      process.on('exit', () => console.log('ended'))`
    const said = execFileSync(process.execPath, ['--input-type=module', '-e', script], { timeout: 20_000, encoding: 'utf8' })
    expect(said.split('\n').filter(Boolean).slice(-4)).toEqual(['ran', 'draining', 'closed', 'ended'])
  } finally {
    rmSync(out, { recursive: true, force: true })
  }
})
