// The calls of the parity table by their names there, over the public client. An argument that a call does not know throws.

/* eslint-disable @typescript-eslint/no-unsafe-argument, @typescript-eslint/no-unsafe-assignment -- what a table holds has no type */

import { once } from 'node:events'
import { createHash } from 'node:crypto'
import { Readable } from 'node:stream'
import { FailJob, ReleaseJob, ValueKind, type CapPolicy, type Claim, type CronOptions, type IngestItem, type Job, type JobOptions, type Pannier } from '../../src/index.js'
import { checkKnown } from '../../src/options.js'

/** Of the table: whatever JSON has, and bytes. */
// eslint-disable-next-line @typescript-eslint/no-explicit-any -- the same
export type Given = Record<string, any>
type Call = (pannier: Pannier, given: Given, results: ReadonlyMap<string, unknown>) => unknown

/** What is the caller's own, to the letter. */
const OWN = new Set(['fields', 'payload', 'result', 'labels', 'wanted'])
/** Arguments whose value is a word of TypeScript's. */
const WORDS = new Set(['misfire', 'preset'])

/** The arguments as TypeScript says them: `ttl_ms` is `ttl`, in milliseconds; `due_at_ms` a Date. */
export function terms(given: Given): Given {
  return Object.fromEntries(Object.entries(given).map(([name, value]) => {
    if (name === 'due_at_ms') return ['dueAt', new Date(value as number)]
    const said = camel(name.replace(/_ms$/, ''))
    if (OWN.has(name)) return [said, value as unknown]
    if (WORDS.has(name)) return [said, camel(value as string)]
    return [said, inner(value)]
  }))
}

function inner(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(inner)
  return value !== null && typeof value === 'object' && !(value instanceof Uint8Array) ? terms(value) : value
}

export function camel(name: string): string {
  return name.replace(/_([a-z0-9])/g, (_, letter: string) => letter.toUpperCase())
}

async function all<T>(found: AsyncIterable<T>): Promise<T[]> {
  const list: T[] = []
  for await (const one of found) list.push(one)
  return list
}

const byId = <T extends { id: string }>(list: T[]): T[] => list.sort((a, b) => (a.id < b.id ? -1 : 1))
const orMissing = (found: object | undefined): object => (found === undefined ? { exists: false } : { exists: true, ...found })
const claimOf = (results: ReadonlyMap<string, unknown>, name: unknown): Claim => results.get(name as string) as Claim

/** Nothing is left. */
function none(where: string, rest: object): void {
  checkKnown(where, rest, [])
}

function reserved({ reserve, ...rest }: Given): Given {
  return reserve === undefined ? rest : { ...rest, reserve }
}

export const CALLS: Readonly<Record<string, Call>> = {
  'dedup.claim': (pannier, { key, ...how }) => pannier.dedup.claim(key, terms(how)),
  'dedup.claim_once': async (pannier, { key, ...how }) => ({ claimed: await pannier.dedup.claimOnce(key, terms(how)) }),
  'dedup.claim_batch': async (pannier, { items, ...how }) => ({ items: await pannier.dedup.claimBatch((items as Given[]).map(item => terms(item) as { key: string }), terms(how)) }),
  'dedup.complete': (_, { claim, result, ...how }, results) => claimOf(results, claim).complete(result, terms(how)),
  'dedup.extend': (_, { claim, in_progress_ttl_ms, ...how }, results) => claimOf(results, claim).extend(in_progress_ttl_ms, terms(how)),
  'dedup.release': (_, { claim, ...how }, results) => claimOf(results, claim).release(terms(how)),

  'conversations.get': (pannier, { id, ...how }) => pannier.conversations.get(id, terms(how)),
  'conversations.advance': (pannier, { id, step, fields, ...how }) => pannier.conversations.advance(id, step, fields, terms(how)),
  'conversations.touch': (pannier, { id, ...how }) => pannier.conversations.touch(id, terms(how)),
  'conversations.reset': async (pannier, { id, ...how }) => ({ existed: await pannier.conversations.reset(id, terms(how)) }),
  'conversations.list': async (pannier, given) => (none('list', given), { conversations: byId(await all(pannier.conversations.list())) }),

  'caps.set_policy': async (pannier, { unlimited, ...given }) =>
    (await pannier.caps.setPolicy({ ...terms(given), ...(unlimited === true ? { limit: Infinity } : {}) } as CapPolicy)).policy,
  'caps.get_policy': (pannier, { name, ...rest }) => (none('getPolicy', rest), pannier.caps.getPolicy(name)),
  'caps.list_policies': async (pannier, given) => (none('listPolicies', given), pannier.caps.listPolicies()),
  'caps.delete_policy': async (pannier, { name, ...how }) => ({ deleted: await pannier.caps.deletePolicy(name, terms(how)) }),
  'caps.consume': (pannier, { policies, recipient, sender, ...how }) => pannier.caps.consume(subject(recipient, sender), policies, reserved(terms(how)) as { sendId: string }),
  'caps.confirm': (pannier, { send_id, ...how }) => pannier.caps.confirm(send_id, terms(how)),
  'caps.refund': (pannier, { send_id, ...how }) => pannier.caps.refund(send_id, terms(how)),
  'caps.peek': (pannier, { policies, recipient, sender, ...how }) => pannier.caps.peek(subject(recipient, sender), policies, terms(how)),
  'caps.note_inbound': async (pannier, { recipient, ...how }) => ({ openUntil: await pannier.caps.noteInbound(recipient, terms(how)) }),

  'schedule.enqueue': (pannier, { queue, ...job }) => pannier.schedule.enqueue(queue, terms(job)),
  'schedule.enqueue_batch': async (pannier, { queue, jobs, ...rest }) => (none('enqueueBatch', rest), { jobs: await pannier.schedule.enqueueBatch(queue, (jobs as Given[]).map(job => terms(job) as JobOptions)) }),
  'schedule.ingest': async (pannier, { queue, items, ...rest }) => (none('ingest', rest), { items: await pannier.schedule.ingest(queue, (items as Given[]).map(item => terms(item) as IngestItem)) }),
  'schedule.get': async (pannier, { queue, id, ...how }) => orMissing(await pannier.schedule.get(queue, id, terms(how))),
  'schedule.list': async (pannier, { queue, state, ...how }) => ({ ids: (await all(pannier.schedule.list(queue, state, terms(how)))).map(job => job.id) }),
  'schedule.get_queue': async (pannier, { queue, ...how }) => orMissing(await pannier.schedule.getQueue(queue, terms(how))),
  'schedule.cancel': (pannier, { queue, id, ...how }) => pannier.schedule.cancel(queue, id, terms(how)),
  'schedule.reschedule': (pannier, { queue, id, delay_ms, due_at_ms, ...how }) =>
    pannier.schedule.reschedule(queue, id, due_at_ms === undefined ? (delay_ms as number) : new Date(due_at_ms as number), terms(how)),
  'schedule.promote': (pannier, { queue, id, ...how }) => pannier.schedule.promote(queue, id, terms(how)),
  'schedule.retry_dead': async (pannier, { queue, ...which }) => ({ count: await pannier.schedule.retryDead(queue, which as { all: true }) }),
  'schedule.delete_dead': async (pannier, { queue, ...which }) => ({ count: await pannier.schedule.deleteDead(queue, which as { all: true }) }),
  'schedule.configure': (pannier, { queue, ...settings }) => pannier.schedule.configureQueue(queue, terms(settings)),
  'schedule.pause': (pannier, { queue, ...how }) => pannier.schedule.pause(queue, terms(how)),
  'schedule.resume': async (pannier, { queue, ...how }) => ({ resumed: await pannier.schedule.resume(queue, terms(how)) }),
  'schedule.purge': (pannier, { queue, ...how }) => pannier.schedule.purge(queue, terms(how) as { confirm: string }),
  'schedule.work': work,
  'schedule.cron_upsert': (pannier, { queue, ...cron }) => pannier.schedule.cron.upsert(queue, terms(cron) as CronOptions),
  'schedule.cron_delete': async (pannier, { queue, id, ...how }) => ({ deleted: await pannier.schedule.cron.delete(queue, id, terms(how)) }),
  'schedule.cron_list': async (pannier, { queue, ...how }) => ({ crons: byId(await all(pannier.schedule.cron.list(queue, terms(how)))) }),

  'blobs.save': (pannier, { blob, content, ...how }) => pannier.blobs.save(blob, Readable.from(content === '' ? [] : [Buffer.from(content as string)]), terms(how)),
  'blobs.read': async (pannier, { blob, ...how }) => {
    const content = Buffer.concat(await all(pannier.blobs.read(blob, terms(how))))
    return { size: content.length, sha256: createHash('sha256').update(content).digest() }
  },
  'blobs.stat': async (pannier, { blob, ...how }) => {
    const status = await pannier.blobs.stat(blob, terms(how))
    return { exists: status.blob !== undefined, ...status }
  },
  'blobs.list': async (pannier, given) => (none('list', given), { blobs: await all(pannier.blobs.list()) }),
  'blobs.deleted': async (pannier, given) => (none('deleted', given), { archives: await all(pannier.blobs.deleted()) }),
  'blobs.generations': async (pannier, { blob, ...rest }) => (none('generations', rest), { generations: await pannier.blobs.generations(blob) }),
  'blobs.rollback': (pannier, { blob, generation, ...how }) => pannier.blobs.rollback(blob, generation, terms(how)),
  'blobs.delete': async (pannier, { blob, ...how }) => ({ deleted: await pannier.blobs.delete(blob, mode(how)) }),
  'blobs.restore': (pannier, { blob, ...how }) => pannier.blobs.restore(blob, terms(how)),

  'sessions.open': openOnce,
  'sessions.commit': (pannier, { session, puts = [], deletes = [], expected_revision, ...rest }) => {
    none('commit', rest)
    return pannier.sessions.commit(session, {
      puts: (puts as Given[]).map(({ type, id, value, ...more }) => (none('put', more), { type, id, kind: ValueKind.VALUE_KIND_BYTES, value: Buffer.from(value as string) })),
      deletes: deletes as { type: string; id: string }[],
      ...(expected_revision === undefined ? {} : { expectedRevision: expected_revision as number }),
    })
  },
  'sessions.get': (pannier, { session, wanted, ...rest }) => (none('get', rest), pannier.sessions.get(session, Object.entries(wanted as Record<string, string[]>).map(([type, ids]) => ({ type, ids })))),
  'sessions.records': async (pannier, { session, type, ids_only, ...rest }) => {
    none('records', rest)
    const found = await all(pannier.sessions.records(session, { ...(type === undefined ? {} : { type: type as string }), idsOnly: ids_only === true }))
    return { records: found.sort((a, b) => (a.type + a.id < b.type + b.id ? -1 : 1)) }
  },
  'sessions.info': async (pannier, { session, ...rest }) => (none('info', rest), orMissing(await pannier.sessions.info(session))),
  'sessions.list': async (pannier, given) => (none('list', given), { sessions: await all(pannier.sessions.list()) }),
  'sessions.deleted': async (pannier, { session, ...rest }) => (none('deleted', rest), { archives: await all(pannier.sessions.deleted(session)) }),
  'sessions.delete': async (pannier, { session, ...how }) => ({ deleted: await pannier.sessions.delete(session, mode(how)) }),
  'sessions.restore': (pannier, { session, replace = false, ...rest }) => (none('restore', rest), pannier.sessions.restore(session, { replace: replace as boolean })),
  'sessions.break_lease': async (pannier, { session, ...rest }) => (none('breakLease', rest), { broken: await pannier.sessions.breakLease(session) }),
}

function subject(recipient: string | undefined, sender: string | undefined): { recipient?: string; sender?: string } {
  return { ...(recipient === undefined ? {} : { recipient }), ...(sender === undefined ? {} : { sender }) }
}

function mode({ shred, ...how }: Given): Given {
  return { ...terms(how), ...(shred === true ? { mode: 'shred' } : {}) }
}

/** A worker until so many jobs have ended so. */
async function work(pannier: Pannier, { queue, jobs, how, result, error = 'no', after_ms = 0, ...rest }: Given): Promise<object> {
  none('work', rest)
  const ran: Job[] = []
  const worker = pannier.worker(queue as string, job => {
    ran.push(job)
    if (how === 'done') return result as unknown
    if (how === 'fail') throw new FailJob(error as string)
    if (how === 'retry') throw new Error(error as string)
    if (how === 'release') throw new ReleaseJob(after_ms as number)
    throw new TypeError(`unknown end of a job: ${String(how)}`)
  })
  worker.on('failed', () => {})
  const until = performance.now() + 20_000
  while (ran.length < jobs && performance.now() < until) await new Promise(resolve => setTimeout(resolve, 10))
  await worker.close()
  return { jobs: ran }
}

/** A session that is opened, and released again: by the protocol, since only an auth state opens one otherwise. */
async function openOnce(pannier: Pannier, { session, ...rest }: Given): Promise<object> {
  none('open', rest)
  const stream = pannier.raw.session.attach()
  stream.write({
    seq: 1, timeoutMs: 0,
    op: { $case: 'open', value: {
      namespace: pannier.namespace, session, owner: 'parity', writerId: '', onHeld: 0, waitTimeout: undefined, leaseTtl: undefined,
      minRevision: 0n, mustExist: false, resume: undefined, preloadTypes: [],
    } },
  })
  await once(stream, 'data')
  stream.write({ seq: 2, timeoutMs: 0, op: { $case: 'close', value: {} } })
  stream.end()
  stream.resume()
  await once(stream, 'end')
  return {}
}
