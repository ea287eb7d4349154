// Jobs: every outcome of adding, looking at and taking back, as the client gives it.
import { expect, test } from 'vitest'
import { BadRequestError, TooLargeError, type JobInfo, type JobOptions, type JobState, type Pannier, type QueueEvent } from '../src/index.js'
import { newName, pause, within } from './support/states.js'
import { type Sidecar, sidecarForAll } from './support/sidecar.js'

let sidecar: Sidecar
let pannier: Pannier
sidecarForAll(place => ({ sidecar, pannier } = place))

const HOUR = 3_600_000

async function all<T>(items: AsyncIterable<T>): Promise<T[]> {
  const list: T[] = []
  for await (const item of items) list.push(item)
  return list
}

/** Runs what is ready, then closes. */
async function run(queue: string, handler: () => unknown, jobs = 1): Promise<void> {
  const worker = pannier.worker(queue, handler)
  let ended = 0
  await within(10_000, new Promise<void>(resolve => {
    const end = (): void => void (++ended === jobs && resolve())
    worker.on('completed', end)
    worker.on('failed', (_job, _error, { retried }) => retried || end())
  }))
  await worker.close()
}

// bullmq#3765, OptimalBits/bull#1828: an add is never silently ignored.
test('every add says what became of it: created, existing, replaced, rescheduled, alreadyFinished', async () => {
  const queue = newName()
  const soon = new Date(Date.now() + HOUR)
  const created = await pannier.schedule.enqueue(queue, { id: 'r', dueAt: soon, payload: { n: 1 } })
  expect(created).toEqual({ outcome: 'created', id: 'r', number: 1, state: 'scheduled', dueAt: soon, replayed: false })
  const kept = await pannier.schedule.enqueue(queue, { id: 'r', delay: '20s', payload: { n: 2 } })
  expect(kept).toMatchObject({ outcome: 'existing', number: 1, state: 'scheduled', dueAt: soon })
  const later = new Date(Date.now() + 2 * HOUR)
  expect(await pannier.schedule.enqueue(queue, { id: 'r', dueAt: later, payload: { n: 3 }, onConflict: 'reschedule' })).toMatchObject({ outcome: 'rescheduled', dueAt: later })
  expect((await pannier.schedule.get(queue, 'r'))?.payload).toEqual({ n: 1 })
  expect(await pannier.schedule.enqueue(queue, { id: 'r', payload: { n: 4 }, onConflict: 'replace' })).toMatchObject({ outcome: 'replaced', state: 'ready' })
  expect((await pannier.schedule.get(queue, 'r'))?.payload).toEqual({ n: 4 })
  await run(queue, () => 'sent')
  const finished = await pannier.schedule.enqueue(queue, { id: 'r' })
  expect(finished).toMatchObject({ outcome: 'alreadyFinished', state: 'done', number: 1 })
  if (finished.outcome !== 'alreadyFinished') return expect.fail(finished.outcome)
  expect(Math.abs((finished.finishedAt?.getTime() ?? 0) - Date.now())).toBeLessThan(10_000)
})

test('a unique window of 0 frees the id at the end; without an id each job is its own', async () => {
  const queue = newName()
  await pannier.schedule.enqueue(queue, { id: 'z', uniqueWindow: 0 })
  expect(await pannier.schedule.enqueue(queue, { id: 'z', uniqueWindow: 0 })).toMatchObject({ outcome: 'existing' })
  await run(queue, () => {})
  expect(await pannier.schedule.enqueue(queue, { id: 'z', uniqueWindow: 0 })).toMatchObject({ outcome: 'created' })
  const [a, b] = [await pannier.schedule.enqueue(queue, {}), await pannier.schedule.enqueue(queue, {})]
  expect([a.outcome, b.outcome]).toEqual(['created', 'created'])
  expect(a.id).toMatch(/^[0-9a-f-]{36}$/)
  expect(a.id).not.toBe(b.id)
})

// bullmq#3384, #3382, #4052; LanternOps/breeze#1118, vexl-it/vexl#2442: ids of any characters are accepted, and distinct.
test('ids: any characters, all distinct; only those that are empty, too long or no Unicode are refused, here', async () => {
  const queue = newName()
  const ids = ['a:b', 'a:b:c', 'a:b:c:d', '{x}', '*', 'é', '123', '00123', ' ', '😀', 'x'.repeat(512), 'é'.repeat(256)]
  const results = await Promise.all(ids.map(id => pannier.schedule.enqueue(queue, { id, delay: HOUR })))
  expect(results.map(({ outcome, id }) => [outcome, id])).toEqual(ids.map(id => ['created', id]))
  expect((await all(pannier.schedule.list(queue, 'scheduled'))).map(({ id }) => id).sort()).toEqual([...ids].sort())
  for (const id of ['', 'x'.repeat(513), 'é'.repeat(257), '\ud800']) {
    await expect(pannier.schedule.enqueue(queue, { id })).rejects.toMatchObject({ reason: 'BAD_FIELD', field: 'job.id' })
  }
  await expect(pannier.schedule.enqueue('', {})).rejects.toMatchObject({ field: 'queue' })
})

// OptimalBits/bull#244 (2^31 ms), bullmq#4096 (milliseconds after 2039), #1389: due times are exact, whatever their size.
test('delays and dates: exact to the millisecond until 9999; negative and past ones are at once', async () => {
  const queue = newName()
  for (const delay of [2 ** 31 - 1, 2 ** 31, 2 ** 31 + 1]) {
    const before = Date.now()
    const { state, dueAt } = await pannier.schedule.enqueue(queue, { delay })
    expect(state).toBe('scheduled')
    expect(Math.abs((dueAt?.getTime() ?? 0) - before - delay)).toBeLessThan(2000)
  }
  for (const at of ['2040-01-01T00:00:00.002Z', '2040-01-01T00:00:00.001Z', '9999-12-31T23:59:59.999Z']) {
    expect((await pannier.schedule.enqueue(queue, { id: at, dueAt: new Date(at) })).dueAt?.toISOString()).toBe(at)
  }
  const listed = (await all(pannier.schedule.list(queue, 'scheduled'))).map(({ id }) => id).slice(-3)
  expect(listed).toEqual(['2040-01-01T00:00:00.001Z', '2040-01-01T00:00:00.002Z', '9999-12-31T23:59:59.999Z'])
  for (const job of [{ delay: -5 }, { delay: 0 }, { dueAt: new Date(0) }, { dueAt: new Date(-1) }, { dueAt: new Date(Date.now() - 1000) }]) {
    expect(await pannier.schedule.enqueue(queue, job)).toMatchObject({ outcome: 'created', state: 'ready' })
  }
  expect(await pannier.schedule.reschedule(queue, '9999-12-31T23:59:59.999Z', new Date('2041-01-01T00:00:00Z'))).toMatchObject({ outcome: 'rescheduled' })
  expect(await pannier.schedule.reschedule(queue, '9999-12-31T23:59:59.999Z', new Date('2042-01-01T00:00:00Z'))).toMatchObject({ outcome: 'rescheduled' })
  expect((await pannier.schedule.get(queue, '9999-12-31T23:59:59.999Z'))?.dueAt).toEqual(new Date('2042-01-01T00:00:00Z'))
})

// bullmq#1799's kind of surprise is excluded by outcomes; what cannot be is refused before anything is sent.
test('what cannot be is refused here, by name', async () => {
  const queue = newName()
  const add = (job: JobOptions<unknown>): Promise<unknown> => pannier.schedule.enqueue(queue, job)
  const cases: [JobOptions<unknown>, string][] = [
    [{ delay: 1.5 }, 'job.delay'], [{ delay: 'x' as '1s' }, 'job.delay'], [{ delay: NaN }, 'job.delay'],
    [{ dueAt: new Date(NaN) }, 'job.due_at'], [{ dueAt: 5 as unknown as Date }, 'job.due_at'], [{ delay: 1, dueAt: new Date() }, 'job.delay'],
    [{ priority: 8192 }, 'job.priority'], [{ priority: -1 }, 'job.priority'], [{ group: '' }, 'job.group'],
    [{ retry: { maxAttempts: 0 } }, 'job.retry.max_attempts'], [{ retry: { maxAttempts: 1001 } }, 'job.retry.max_attempts'],
    [{ retry: { base: 0 } }, 'job.retry.base'], [{ retry: { base: '25h' } }, 'job.retry.base'], [{ retry: { jitterPercent: 101 } }, 'job.retry.jitter_percent'],
    [{ uniqueWindow: '401d' }, 'job.unique_window'], [{ onConflict: 'drop' as 'keep' }, 'job.on_conflict'],
    [{ deadline: new Date(), deadlineIn: 1 }, 'job.deadline'], [{ cap: { policies: [] } }, 'job.cap.policies'], [{ cap: { policies: 'p', n: 0 } }, 'job.cap.n'],
    [{ payload: 1n }, 'job.payload'], [{ payload: () => {} }, 'job.payload'], [{ payload: NaN }, 'job.payload'],
  ]
  for (const [job, field] of cases) {
    const error: unknown = await add(job).catch((error: unknown) => error)
    expect(error, field).toBeInstanceOf(BadRequestError)
    expect(error).toMatchObject({ field })
  }
  await expect(add({ payload: 'x'.repeat(256 * 1024 + 1) })).rejects.toBeInstanceOf(TooLargeError)
  await expect(add({ duAt: new Date() } as JobOptions)).rejects.toThrow(/did you mean `dueAt`/)
  await expect(add({ retry: { attempts: 3 } as object })).rejects.toThrow(/unknown option `attempts`/)
  await expect(pannier.schedule.enqueueBatch(queue, [])).rejects.toMatchObject({ field: 'jobs' })
  await expect(pannier.schedule.enqueueBatch(queue, Array(1001).fill({}))).rejects.toBeInstanceOf(TooLargeError)
  await expect(pannier.schedule.enqueueBatch(queue, Array(20).fill({ payload: 'x'.repeat(250_000) }))).rejects.toBeInstanceOf(TooLargeError)
  await expect(pannier.schedule.enqueueBatch(queue, [{}, { id: '' }])).rejects.toMatchObject({ field: 'jobs[1].id' })
  await expect(pannier.schedule.ingest(queue, Array(101).fill({ dedupKey: 'a' }))).rejects.toBeInstanceOf(TooLargeError)
  await expect(pannier.schedule.ingest(queue, [{ dedupKey: 'a' }, { dedupKey: '' }])).rejects.toMatchObject({ field: 'items[1].dedup_key' })
  await expect(pannier.schedule.ingest(queue, [{ dedupKey: 'a', id: 'b' } as never])).rejects.toThrow(/unknown option `id`/)
  await expect(pannier.schedule.purge(queue, { confirm: 'other' })).rejects.toMatchObject({ field: 'confirm' })
  await expect(pannier.schedule.list(queue, 'failed' as JobState).next()).rejects.toMatchObject({ field: 'state' })
  // Nothing of it has reached the sidecar.
  expect(await pannier.schedule.getQueue(queue)).toBeUndefined()
})

test('a batch is decided job by job, in order', async () => {
  const queue = newName()
  const results = await pannier.schedule.enqueueBatch(queue, [{ id: 'a', delay: HOUR }, { id: 'b' }, { id: 'a' }, {}])
  expect(results.map(({ outcome, number }) => [outcome, number])).toEqual([['created', 1], ['created', 2], ['existing', 1], ['created', 3]])
  const many = await pannier.schedule.enqueueBatch(queue, Array.from({ length: 1000 }, (_, n) => ({ id: `m${n}`, payload: n })))
  expect(many.every(({ outcome }) => outcome === 'created')).toBe(true)
})

test('ingest: a message that comes again, in one call or later, is one job', async () => {
  const queue = newName()
  const item = (key: string): { dedupKey: string; payload: object; group: string } => ({ dedupKey: key, payload: { key }, group: 'chat' })
  const first = await pannier.schedule.ingest(queue, [item('wamid.1'), item('wamid.2'), item('wamid.1')])
  expect(first.map(({ outcome }) => outcome)).toEqual(['created', 'created', 'existing'])
  const seen: unknown[] = []
  const worker = pannier.worker(queue, job => void seen.push(job.payload))
  while (seen.length < 2) await pause(10)
  await worker.close()
  expect(seen).toEqual([{ key: 'wamid.1' }, { key: 'wamid.2' }])
  const again = await Promise.all(Array.from({ length: 50 }, () => pannier.schedule.ingest(queue, [item('wamid.1')])))
  expect(again.flat().every(({ outcome, state }) => outcome === 'alreadyFinished' && state === 'done')).toBe(true)
  const raced = await Promise.all(Array.from({ length: 50 }, () => pannier.schedule.ingest(queue, [item('wamid.3')])))
  expect(raced.flat().filter(({ outcome }) => outcome === 'created')).toHaveLength(1)
  expect((await pannier.schedule.getQueue(queue))?.totals.created).toBe(3)
})

test('get and list give a job as it is; one that is not there is undefined', async () => {
  const queue = newName()
  const deadline = new Date(Date.now() + 5 * HOUR)
  await pannier.schedule.enqueue(queue, { id: 'j', delay: '1h', payload: { waId: '49' }, group: 'g', priority: 3, deadline, retry: { maxAttempts: 9 } })
  const job = await pannier.schedule.get<{ waId: string }>(queue, 'j')
  expect(job?.payload?.waId).toBe('49')
  const expected: Partial<JobInfo> = {
    queue, id: 'j', number: 1, state: 'scheduled', priority: 3, group: 'g', attempts: 0, maxAttempts: 9, deadline,
    leaseUntil: undefined, finishedAt: undefined, deadReason: undefined, error: undefined, progress: undefined, cancelRequested: false, result: undefined,
  }
  expect(job).toMatchObject(expected)
  expect(await all(pannier.schedule.list(queue, 'scheduled'))).toMatchObject([{ ...expected, payload: undefined }])
  expect(await all(pannier.schedule.list(queue, 'scheduled', { withPayload: true }))).toMatchObject([{ payload: { waId: '49' } }])
  expect(await all(pannier.schedule.list(queue, 'dead'))).toEqual([])
  expect(await pannier.schedule.get(queue, 'none')).toBeUndefined()
  expect(await pannier.schedule.getQueue('none')).toBeUndefined()
  expect((await all(pannier.schedule.queues())).map(info => info.queue)).toContain(queue)
})

test('cancel, promote and reschedule in every state', async () => {
  const queue = newName()
  const { schedule } = pannier
  for (const call of ['cancel', 'promote'] as const) expect(await schedule[call](queue, 'none')).toEqual({ outcome: 'notFound' })
  expect(await schedule.reschedule(queue, 'none', '5s')).toEqual({ outcome: 'notFound' })
  await schedule.enqueue(queue, { id: 'a', delay: HOUR })
  expect(await schedule.promote(queue, 'a')).toMatchObject({ outcome: 'rescheduled', state: 'ready' })
  expect(await schedule.reschedule(queue, 'a', '1h')).toMatchObject({ outcome: 'rescheduled', state: 'scheduled' })
  expect(await schedule.reschedule(queue, 'a', -1)).toMatchObject({ outcome: 'rescheduled', state: 'ready' })
  let end!: () => void
  const held = new Promise<void>(resolve => (end = resolve))
  const worker = pannier.worker(queue, () => held)
  while (worker.running === 0) await pause(10)
  expect(await schedule.reschedule(queue, 'a', '1h')).toEqual({ outcome: 'leased' })
  expect(await schedule.promote(queue, 'a')).toEqual({ outcome: 'leased' })
  expect(await schedule.enqueue(queue, { id: 'a', onConflict: 'replace' })).toMatchObject({ outcome: 'existing', state: 'leased' })
  end()
  await worker.close()
  expect(await schedule.reschedule(queue, 'a', '1h')).toMatchObject({ outcome: 'alreadyFinished', state: 'done', finishedAt: expect.any(Date) as Date })
  expect(await schedule.cancel(queue, 'a')).toEqual({ outcome: 'alreadyFinished' })
  await schedule.enqueue(queue, { id: 'b', delay: HOUR })
  expect(await schedule.cancel(queue, 'b')).toEqual({ outcome: 'cancelled' })
  expect(await schedule.cancel(queue, 'b')).toEqual({ outcome: 'cancelled' })
  // A cancelled job frees its id.
  expect(await schedule.enqueue(queue, { id: 'b', delay: HOUR })).toMatchObject({ outcome: 'created' })
})

// bullmq#374, #1356, #2256; SnapOtter#889: taking a job back never fails, however it races its worker.
test('cancel that races a worker: cancelled, cancelRequested or alreadyFinished, never an error', async () => {
  const queue = newName()
  const worker = pannier.worker(queue, () => {}, { concurrency: 10 })
  const outcomes = new Set<string>()
  await Promise.all(Array.from({ length: 300 }, async (_, n) => {
    await pannier.schedule.enqueue(queue, { id: `${n}` })
    outcomes.add((await pannier.schedule.cancel(queue, `${n}`)).outcome)
  }))
  await worker.close()
  expect([...outcomes].every(outcome => ['cancelled', 'cancelRequested', 'alreadyFinished'].includes(outcome))).toBe(true)
  const { counts } = (await pannier.schedule.getQueue(queue)) ?? expect.fail()
  expect(counts.done + counts.ready).toBe(300)
})

test('retryDead and deleteDead, by ids and all of them', async () => {
  const queue = newName()
  const failing = { retry: { maxAttempts: 1 } }
  await pannier.schedule.enqueueBatch(queue, ['a', 'b', 'c'].map(id => ({ id, ...failing })))
  const fail = (jobs: number): Promise<void> => run(queue, () => Promise.reject(new Error('no')), jobs)
  await fail(3)
  expect(await pannier.schedule.retryDead(queue, { ids: ['a', 'none'] })).toBe(1)
  expect(await pannier.schedule.get(queue, 'a')).toMatchObject({ state: 'ready', attempts: 0, deadReason: undefined })
  expect(await pannier.schedule.retryDead(queue, { all: true, since: new Date(Date.now() + HOUR) })).toBe(0)
  expect(await pannier.schedule.retryDead(queue, { all: true })).toBe(2)
  await fail(3)
  expect(await pannier.schedule.deleteDead(queue, { ids: ['b'] })).toBe(1)
  expect(await pannier.schedule.enqueue(queue, { id: 'b' })).toMatchObject({ outcome: 'created' })
  expect(await pannier.schedule.deleteDead(queue, { all: true })).toBe(2)
  expect((await pannier.schedule.getQueue(queue))?.counts.dead).toBe(0)
  await expect(pannier.schedule.retryDead(queue, { ids: [] })).rejects.toMatchObject({ field: 'ids' })
})

test('a queue is configured field by field, paused, resumed and purged', async () => {
  const queue = newName()
  const defaults = await pannier.schedule.configureQueue(queue, {})
  expect(defaults).toEqual({
    concurrency: 0, skipDelayed: false, retry: { maxAttempts: 3, base: 60_000, jitterPercent: 0 },
    retention: { doneAge: HOUR, doneCount: 1000, deadAge: 14 * 24 * HOUR, deadCount: 5000 },
  })
  await pannier.schedule.configureQueue(queue, { limiter: { max: 20, duration: '1s' }, concurrency: 7, retry: { maxAttempts: 2, base: '1s', jitterPercent: 50 } })
  const set = await pannier.schedule.configureQueue(queue, { skipDelayed: true, retention: { doneCount: 0, deadAge: '1d' } })
  expect(set).toMatchObject({
    limiter: { max: 20, duration: 1000 }, concurrency: 7, skipDelayed: true, retry: { maxAttempts: 2, base: 1000, jitterPercent: 50 },
    retention: { doneAge: HOUR, doneCount: 0, deadAge: 24 * HOUR },
  })
  expect((await pannier.schedule.configureQueue(queue, { limiter: { max: 0 } })).limiter).toBeUndefined()
  await expect(pannier.schedule.configureQueue(queue, { limiter: { max: 5 } })).rejects.toMatchObject({ field: 'settings.limiter.duration' })
  await expect(pannier.schedule.configureQueue(queue, { concurency: 1 } as object)).rejects.toThrow(/did you mean `concurrency`/)

  expect(await pannier.schedule.resume(queue)).toBe(false)
  const { pausedUntil } = await pannier.schedule.pause(queue, { for: '1h' })
  expect(Math.abs((pausedUntil?.getTime() ?? 0) - Date.now() - HOUR)).toBeLessThan(5000)
  expect(await pannier.schedule.pause(queue)).toEqual({ pausedUntil: undefined })
  const ran: string[] = []
  const worker = pannier.worker(queue, job => void ran.push(job.id))
  await pannier.schedule.enqueue(queue, { id: 'p' })
  await pause(300)
  expect([ran.length, (await pannier.schedule.getQueue(queue))?.paused]).toEqual([0, true])
  expect(await pannier.schedule.resume(queue)).toBe(true)
  while (ran.length === 0) await pause(10)
  await worker.close()
  await pannier.schedule.enqueueBatch(queue, Array.from({ length: 700 }, (_, n) => ({ delay: n % 2 ? HOUR : 0 })))
  expect(await pannier.schedule.purge(queue, { confirm: queue, states: ['scheduled'] })).toEqual({ removed: 350, cancelRequested: 0 })
  expect(await pannier.schedule.purge(queue, { confirm: queue })).toEqual({ removed: 350, cancelRequested: 0 })
})

test('a job past its deadline is dead, one that asks for an unknown cap too', async () => {
  const queue = newName()
  await pannier.schedule.enqueue(queue, { id: 'late', deadlineIn: 1 })
  await pannier.schedule.enqueue(queue, { id: 'cap', cap: { policies: 'no such policy', recipient: '49' } })
  await pannier.schedule.enqueue(queue, { id: 'runs' })
  await pause(10)
  await run(queue, () => {})
  for (const [id, deadReason] of [['late', 'expired'], ['cap', 'capConfig']] as const) {
    for (let n = 0; n < 300 && (await pannier.schedule.get(queue, id))?.state !== 'dead'; n++) await pause(10)
    expect(await pannier.schedule.get(queue, id)).toMatchObject({ state: 'dead', deadReason, attempts: 0 })
  }
})

test('cron: set, set again, changed, listed, deleted; it fires each second with its payload', async () => {
  const queue = newName()
  const { cron } = pannier.schedule
  const report = { id: 'report', pattern: '30 2 * * *', timeZone: 'America/New_York', template: { payload: { kind: 'daily' }, group: 'g' } }
  expect(await cron.upsert(queue, report)).toMatchObject({ outcome: 'created', nextAt: expect.any(Date) as Date })
  expect(await cron.upsert(queue, report)).toMatchObject({ outcome: 'unchanged' })
  expect(await cron.upsert(queue, { ...report, misfire: 'skip', overlap: 'allow' })).toMatchObject({ outcome: 'updated' })
  const [stored] = await all(cron.list(queue, { occurrences: 3 }))
  expect(stored).toMatchObject({
    id: 'report', pattern: '30 2 * * *', everyMs: undefined, timeZone: 'America/New_York', misfire: 'skip', overlap: 'allow', payload: { kind: 'daily' }, group: 'g', lastAt: undefined,
  })
  expect(stored?.occurrences).toHaveLength(3)
  expect(await cron.delete(queue, 'report')).toBe(true)
  expect(await cron.delete(queue, 'report')).toBe(false)
  // A pattern that never fires is refused.
  await expect(cron.upsert(queue, { id: 'never', pattern: '0 0 30 2 *' })).rejects.toBeInstanceOf(BadRequestError)
  await expect(cron.upsert(queue, { id: 'both', pattern: '* * * * *', every: '1s' })).rejects.toMatchObject({ field: 'cron.pattern' })
  await expect(cron.upsert(queue, { id: 'fast', every: 999 })).rejects.toMatchObject({ field: 'cron.every' })
  await expect(cron.upsert(queue, { id: 't', every: '1s', template: { delay: 5 } as object })).rejects.toThrow()

  const fired: [string, unknown, number][] = []
  const worker = pannier.worker(queue, job => void fired.push([job.id, job.payload, job.dueAt.getTime()]))
  await cron.upsert(queue, { id: 'tick', every: '1s', template: { payload: { tick: true } } })
  for (let n = 0; n < 600 && fired.length < 3; n++) await pause(10)
  await cron.delete(queue, 'tick')
  await worker.close()
  expect(fired.length).toBeGreaterThanOrEqual(3)
  for (const [id, payload, due] of fired) {
    expect(id).toMatch(/^tick@/)
    expect(payload).toEqual({ tick: true })
    expect(due % 1000).toBe(0)
  }
  expect(new Set(fired.map(([, , due]) => due)).size).toBe(fired.length)
})

// bullmq#2874, #76: an event stream says from where it watches, and replays nothing.
test('watch: from now on, each event once, until `break` or the signal', async () => {
  const queue = newName()
  await pannier.schedule.enqueue(queue, { id: 'before', delay: HOUR })
  const events: QueueEvent[] = []
  const stop = new AbortController()
  const watching = (async () => {
    for await (const event of pannier.schedule.watch(queue, { signal: stop.signal })) events.push(event)
  })()
  while (events.length === 0) await pause(10)
  await pannier.schedule.enqueue(queue, { id: 'a', retry: { base: 1 } })
  let attempts = 0
  await run(queue, () => {
    if (++attempts === 1) throw new Error('once')
  })
  for (let n = 0; n < 300 && !events.some(({ event }) => event === 'done'); n++) await pause(10)
  stop.abort()
  await within(5000, watching)
  expect(events.map(({ event }) => event)).toEqual(['watching', 'created', 'leased', 'retry', 'leased', 'done'])
  expect(events.slice(1).every(event => 'id' in event && event.id === 'a')).toBe(true)
  for await (const { event } of pannier.schedule.watch(queue)) {
    expect(event).toBe('watching')
    break
  }
})

test('a limiter: never more than its max of starts in any window, over two workers', async () => {
  const queue = newName()
  await pannier.schedule.configureQueue(queue, { limiter: { max: 20, duration: 500 } })
  await pannier.schedule.enqueueBatch(queue, Array.from({ length: 61 }, () => ({})))
  const starts: number[] = []
  const other = await sidecar.connect()
  const workers = [pannier, other].map(of => of.worker(queue, job => void starts.push(job.leasedAt.getTime()), { concurrency: 30 }))
  while (starts.length < 61) await pause(10)
  await Promise.all(workers.map(worker => worker.close()))
  starts.sort((a, b) => a - b)
  for (let n = 20; n < starts.length; n++) expect((starts[n] ?? 0) - (starts[n - 20] ?? 0)).toBeGreaterThanOrEqual(500)
})
