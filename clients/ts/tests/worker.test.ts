// Workers: what a handler gets, how its end settles the job, and what closing keeps.
import { execFileSync } from 'node:child_process'
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { FailJob, JobCancelledError, ReleaseJob, RetryJob, type Handler, type Pannier, type Worker, type WorkerOptions } from '../src/index.js'
import { pause, within } from './support/states.js'
import { Sidecar } from './support/sidecar.js'

let sidecar: Sidecar
let pannier: Pannier
const workers: Worker<never>[] = []
beforeAll(async () => {
  sidecar = await Sidecar.start()
  pannier = await sidecar.connect()
})
afterEach(async () => {
  await Promise.all(workers.splice(0).map(worker => worker.close({ timeout: 3000 })))
})
afterAll(() => sidecar?.stop())

let queues = 0
const newQueue = (): string => `queue:${++queues} {*} é😀`

function work<P>(queue: string | string[], handler: Handler<P>, options: WorkerOptions = {}): Worker<P> {
  const worker = pannier.worker<P>(queue, handler, options)
  workers.push(worker as unknown as Worker<never>)
  return worker
}

async function until(what: string, is: () => boolean | Promise<boolean>, ms = 10_000): Promise<void> {
  const deadline = performance.now() + ms
  while (!(await is())) {
    if (performance.now() > deadline) expect.fail(`not after ${ms} ms: ${what}`)
    await pause(10)
  }
}

test('5 000 jobs at concurrency 50: each runs once, never more than 50 at once', async () => {
  const queue = newQueue()
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
