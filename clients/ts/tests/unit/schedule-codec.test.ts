// What is written and read by hand is what the generated code of the protos reads and writes.
import { expect, test } from 'vitest'
import { EnqueueRequest, IngestRequest, WorkRequest, WorkResponse } from '../../src/gen/pannier/v1/schedule.js'
import { encodeEnqueue, encodeIngest } from '../../src/schedule/codec.js'
import { Reader } from '../../src/stream/wire.js'
import { readResponse, RELEASE, RequestDraft, type WorkListener } from '../../src/worker/codec.js'

test('a job with everything', () => {
  const dueAt = new Date('9999-12-31T23:59:59.999Z')
  const { namespace, queue, requestId, job } = EnqueueRequest.decode(encodeEnqueue('né', 'q{*}', {
    id: 'ü', payload: 'text', dueAt, priority: 8191, group: 'g', retry: { maxAttempts: 1000, base: '1.5s', jitterPercent: 0 },
    deadlineIn: '400d', cap: { policies: ['a', 'b'], recipient: 'r', sender: 's', n: 1_000_000 }, uniqueWindow: 0, onConflict: 'reschedule', holdWhenCancelled: true,
  }))
  expect([namespace, queue]).toEqual(['né', 'q{*}'])
  expect(requestId).toMatch(/^[0-9a-f-]{36}$/)
  expect(job).toEqual({
    id: 'ü', payload: Buffer.from('text'), when: { $case: 'dueAt', value: dueAt }, priority: 8191, group: 'g',
    retry: { maxAttempts: 1000, base: { seconds: 1n, nanos: 500_000_000 }, jitterPercent: 0 },
    notAfter: { $case: 'deadlineIn', value: { seconds: 34_560_000n, nanos: 0 } },
    cap: { policies: ['a', 'b'], recipient: 'r', sender: 's', n: 1_000_000 }, uniqueWindow: { seconds: 0n, nanos: 0 }, onConflict: 3, holdWhenCancelled: true,
  })
})

test('a job with nothing, a delay of 0, a large payload, an ingested one', () => {
  const bare = EnqueueRequest.decode(encodeEnqueue('n', 'q', {})).job
  expect([bare?.id, bare?.payload.length, bare?.when, bare?.notAfter, bare?.uniqueWindow, bare?.onConflict]).toEqual(['', 0, undefined, undefined, undefined, 0])
  expect(EnqueueRequest.decode(encodeEnqueue('n', 'q', { delay: -7 })).job?.when).toEqual({ $case: 'delay', value: { seconds: 0n, nanos: 0 } })
  const payload = new Uint8Array(256 * 1024 - 1).fill(7)
  expect(EnqueueRequest.decode(encodeEnqueue('n', 'q', { payload })).job?.payload.subarray(1)).toEqual(Buffer.from(payload))
  const { items } = IngestRequest.decode(encodeIngest('n', 'q', [{ dedupKey: 'a', payload: { x: 1 } }, { dedupKey: 'é'.repeat(256) }]))
  expect(items.map(({ dedupKey, job }) => [dedupKey, job?.payload.toString('latin1')])).toEqual([['a', '\xfe{"x":1}'], ['é'.repeat(256), '']])
})

test('a worker\'s message with everything', () => {
  const lease = { queue: 'q é', number: 2 ** 47, fence: 2 ** 52 }
  const wire = { queue: 'q é', number: 2n ** 47n, fence: 2n ** 52n }
  const draft = new RequestDraft()
  draft.hello({ namespace: 'n', worker: 'w', queues: ['q é', 'r'], leaseMs: 30_500, held: [lease] })
  draft.settle(lease, { verdict: 0, value: 'ü', retryAfterMs: undefined })
  draft.settle(lease, { verdict: RELEASE, value: 'why', retryAfterMs: 0 })
  draft.progress(lease, Buffer.from([1]))
  draft.received(300)
  draft.credit(1000)
  draft.heartbeat()
  draft.draining()
  expect(WorkRequest.decode(draft.take())).toEqual({
    hello: { namespace: 'n', worker: 'w', queues: ['q é', 'r'], lease: { seconds: 30n, nanos: 500_000_000 }, maxInFlight: 0, held: [wire] },
    settles: [
      { lease: wire, nack: 0, result: Buffer.from('ü'), error: '', retryAfter: undefined },
      { lease: wire, nack: 3, result: Buffer.alloc(0), error: 'why', retryAfter: { seconds: 0n, nanos: 0 } },
    ],
    received: 300n, credit: 1000, heartbeat: true, progress: [{ lease: wire, progress: Buffer.from([1]) }], draining: true,
  })
})

test('a sidecar\'s message with everything', () => {
  const lease = { queue: 'q', number: 7n, fence: 2n ** 52n }
  const at = new Date('2040-01-01T00:00:00.001Z')
  const message = Buffer.from(WorkResponse.encode(WorkResponse.fromPartial({
    welcome: { lease: { seconds: 5n, nanos: 0 }, maxInFlight: 3, held: [lease] },
    jobs: [{
      delivery: 9n, queue: 'q', id: 'é', number: 7n, fence: 2n ** 52n, attempt: 2, maxAttempts: 3, payload: Buffer.from('p'), group: 'g', priority: 4,
      dueAt: at, leasedAt: at, leaseUntil: at, createdAt: at, progress: Buffer.from('half'),
    }],
    settled: [{ lease, outcome: 3 }], leaseLost: [lease], cancelRequested: [lease], quiet: true, draining: true, renewed: 1n,
    errors: [{ lease, reason: 'TOO_LARGE', message: 'm' }, { reason: 'BUSY', message: 'n' }],
  })).finish())
  const said: unknown[] = []
  const note = (name: string) => (...args: unknown[]): void => void said.push([name, ...args])
  const listener: WorkListener = {
    onWelcome: note('welcome'), onJob: note('job'), onSettled: note('settled'), onLost: note('lost'), onCancel: note('cancel'), onQuiet: note('quiet'),
    onDraining: note('draining'), onRenewed: note('renewed'), onRefused: note('refused'),
  }
  readResponse(new Reader(message), listener)
  expect(said).toEqual([
    ['welcome', 5000],
    ['job', {
      delivery: 9, queue: 'q', id: 'é', number: 7, fence: 2 ** 52, attempt: 2, maxAttempts: 3, payload: Buffer.from('p'), group: 'g', priority: 4,
      dueMs: at.getTime(), leasedMs: at.getTime(), createdMs: at.getTime(), progress: Buffer.from('half'),
    }],
    ['settled', 'q', 2 ** 52, 3], ['lost', 'q', 2 ** 52], ['cancel', 'q', 2 ** 52], ['quiet'], ['draining'], ['renewed'],
    ['refused', { queue: 'q', fence: 2 ** 52 }, 'TOO_LARGE', 'm'], ['refused', undefined, 'BUSY', 'n'],
  ])
  for (let end = 1; end < 40; end++) {
    const part = message.subarray(0, end)
    try {
      readResponse(new Reader(part), listener)
    } catch (error) {
      expect(error).toBeInstanceOf(RangeError)
    }
  }
})
