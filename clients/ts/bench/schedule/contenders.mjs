// The same work with BullMQ and with Pannier: both from one Node process, on one Valkey.
import { Queue, Worker } from 'bullmq'
import { Redis } from 'ioredis'

let queues = 0
const name = () => `bench${++queues}`
const PAYLOAD = { waId: '4917012345678', invoiceId: 'INV-2026-000123', template: 'payment_reminder', params: ['Ana', '120.50', 'MXN'] }

/** What BullMQ needs to keep as little as Pannier keeps at least, and to retry as often. */
const OPTIONS = { attempts: 3, removeOnComplete: { age: 3600, count: 1000 } }

/** @returns a contender: each queue it makes is new. */
export function bullmq(socket) {
  const connect = () => {
    const redis = new Redis({ path: socket, maxRetriesPerRequest: null })
    redis.on('error', () => {})
    return redis
  }
  const shared = connect()
  return {
    name: 'bullmq',
    queue() {
      const id = name()
      const queue = new Queue(id, { connection: shared })
      return {
        id,
        add: (n, delay) => queue.add('j', PAYLOAD, { ...OPTIONS, jobId: `job-${n}`, ...(delay ? { delay } : {}) }),
        addMany: count => queue.addBulk(Array.from({ length: count }, (_, n) => ({ name: 'j', data: PAYLOAD, opts: { ...OPTIONS, jobId: `batch-${n}` } }))),
        async work(concurrency, handler) {
          const worker = new Worker(id, handler, { connection: connect(), concurrency })
          worker.on('error', () => {})
          await worker.waitUntilReady()
          return () => worker.close()
        },
        close: () => queue.close(),
      }
    },
    async close() {
      shared.disconnect()
    },
  }
}

/** The same. */
export function pannier(client) {
  return {
    name: 'pannier',
    queue() {
      const id = name()
      return {
        id,
        // BullMQ counts a delay from when `add` is called, by this process's clock: the same instant.
        add: (n, delay) => client.schedule.enqueue(id, { id: `job-${n}`, payload: PAYLOAD, ...(delay ? { dueAt: new Date(Date.now() + delay) } : {}) }),
        addMany: count => client.schedule.enqueueBatch(id, Array.from({ length: count }, (_, n) => ({ id: `batch-${n}`, payload: PAYLOAD }))),
        async work(concurrency, handler) {
          const worker = client.worker(id, handler, { concurrency })
          await new Promise(resolve => worker.on('status', status => status === 'working' && resolve()))
          return () => worker.close()
        },
        async close() {},
      }
    },
    close: () => client.close(),
  }
}
