// What a worker does with a job that came as its stream broke: the sidecar may not have heard of it, and have given the job to another.

import { expect, test } from 'vitest'
import type { Connection } from '../../src/connection.js'
import { WorkResponse, type WorkJob } from '../../src/gen/pannier/v1/schedule.js'
import { deadlineExceeded } from '../../src/errors.js'
import { Worker } from '../../src/worker/worker.js'

interface Stream {
  onMessage: (message: Buffer) => void
  onEnd: (error: unknown) => void
}

/** A worker whose streams are the test's own. */
function start(): { worker: Worker; streams: Stream[]; runs: string[]; lost: string[] } {
  const streams: Stream[] = []
  const runs: string[] = []
  const lost: string[] = []
  const connection = {
    status: 'ready',
    stream: (_: string, handlers: Stream) => {
      streams.push(handlers)
      return { write: () => {}, cancel: () => {} }
    },
  } as unknown as Connection
  const host = { connection, namespace: '', adopt: () => () => {} }
  const worker = new Worker(host, 'q', (job: { id: string }) => void runs.push(job.id), { lease: '30s', concurrency: 10 } as never)
  worker.on('problem', () => {})
  worker.on('leaseLost', job => lost.push(job.id))
  return { worker, streams, runs, lost }
}

type Said = Partial<Pick<WorkResponse, 'leaseLost'>> & { welcome?: { lease: { seconds: bigint; nanos: number } }; jobs?: Partial<WorkJob>[] }

const say = (stream: Stream | undefined, message: Said): void => stream?.onMessage(Buffer.from(WorkResponse.encode(WorkResponse.fromPartial(message as never)).finish()))
const turn = (): Promise<void> => new Promise(resolve => setTimeout(resolve, 5))
const LEASE = { seconds: 30n, nanos: 0 }
const job = (n: number): Partial<WorkJob> => ({
  queue: 'q', id: `job-${n}`, number: BigInt(n), fence: BigInt(n), delivery: BigInt(n), attempt: 1, maxAttempts: 3,
})

test('a job that came as the stream broke begins only if it is still ours', async () => {
  const { worker, streams, runs, lost } = start()
  say(streams[0], { welcome: { lease: LEASE } })
  say(streams[0], { jobs: [job(1)] })
  await turn()
  expect(runs).toEqual(['job-1'])

  say(streams[0], { jobs: [job(2), job(3)] })
  streams[0]?.onEnd(deadlineExceeded('a word of the worker', 1000, false))
  await turn()
  expect(runs, 'nobody may have heard that they came').toEqual(['job-1'])
  await expect.poll(() => streams.length).toBe(2)
  await turn()
  expect(runs, 'not greeted yet').toEqual(['job-1'])
  say(streams[1], { welcome: { lease: LEASE }, leaseLost: [{ queue: 'q', number: 2n, fence: 2n }] })
  await turn()
  expect(runs).toEqual(['job-1', 'job-3'])
  expect(lost, 'its handler never ran').toEqual([])
  await worker.close({ timeout: 100 })
})

test('a worker that is closed without a sidecar does not wait for what never began', async () => {
  const { worker, streams, runs } = start()
  say(streams[0], { welcome: { lease: LEASE } })
  say(streams[0], { jobs: [job(1)] })
  streams[0]?.onEnd(deadlineExceeded('a word of the worker', 1000, false))
  const since = performance.now()
  await worker.close({ timeout: 60_000 })
  expect(performance.now() - since).toBeLessThan(10_000)
  expect(runs).toEqual([])
})
