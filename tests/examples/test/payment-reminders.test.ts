// The reminders, with days that are a few seconds away and a process that is redeployed in between.
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Pannier } from 'pannier'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { connectTo } from '../../baileys/src/pannier-store.js'
import { Sidecar } from '../../baileys/src/sidecar.js'
import { Example } from '../src/example.js'
import { ACCESS_TOKEN, FakeGraph } from '../src/fake-graph.js'
import { PHONE_NUMBER_ID } from '../src/meta.js'

const DAY = 24 * 60 * 60 * 1000
const WA_ID = '4917012345678'

interface Invoice {
  id: string
  waId: string
  amount: string
  dueAt: string
}

let sidecar: Sidecar
let pannier: Pannier
let graph: FakeGraph
let folder: string
let app: Example | undefined
let url: string

beforeEach(async () => {
  sidecar = await Sidecar.start()
  pannier = await connectTo(sidecar)
  graph = await FakeGraph.start()
  folder = await mkdtemp(join(tmpdir(), 'invoices-'))
})
afterEach(async () => {
  await app?.kill9()
  app = undefined
  await pannier?.close()
  await sidecar?.stop()
  await graph?.close()
  await rm(folder, { recursive: true, force: true })
  expect(graph.refused).toEqual([])
})

/** An invoice one of whose reminders is due in so many ms: with -3 the first, 0 the second, 3 the third. */
const invoice = (id: string, inMs: number, days = -3): Invoice =>
  ({ id, waId: WA_ID, amount: '120.50 EUR', dueAt: new Date(Date.now() + inMs - days * DAY).toISOString() })

/** (Re)deployed: what ran is killed with -9. */
async function deploy(...invoices: Invoice[]): Promise<void> {
  await app?.kill9()
  await writeFile(join(folder, 'invoices.json'), JSON.stringify(invoices))
  const env = { PANNIER_ADDRESS: sidecar.address, ACCESS_TOKEN, PHONE_NUMBER_ID, GRAPH_URL: graph.url, INVOICES: join(folder, 'invoices.json'), PORT: '0' }
  app = new Example('payment-reminders', { env })
  url = await app.says(/listening on (\S+)/)
}

async function post(path: string, body: object = {}): Promise<unknown> {
  const response = await fetch(`${url}${path}`, { method: 'POST', body: JSON.stringify(body), signal: AbortSignal.timeout(10_000) })
  return { status: response.status, ...(await response.json() as object) }
}

const states = async (id: string) =>
  Promise.all(['soon', 'today', 'overdue'].map(async kind => (await pannier.schedule.get('reminders', `reminder:${id}:${kind}`))?.state))
const soon = (id: string) => `Invoice ${id} over 120.50 EUR is due in three days.`
const sleep = (ms: number) => new Promise(resolve => setTimeout(resolve, ms))

test('a reminder is sent once, although the process is redeployed before, at and after its time', async () => {
  const one = invoice('INV-1', 10_000)
  await deploy(one)
  await deploy(one)
  expect(await states('INV-1')).toEqual(['scheduled', 'scheduled', 'scheduled'])
  await expect.poll(() => graph.sent.length, { timeout: 20_000 }).toBe(1)
  await expect.poll(() => states('INV-1'), { timeout: 10_000 }).toEqual(['done', 'scheduled', 'scheduled'])
  await deploy(one)
  await deploy(one)
  await sleep(2000)
  expect(graph.textsTo(WA_ID)).toEqual([soon('INV-1')])
  expect(graph.sent[0]?.at).toBeGreaterThanOrEqual(new Date(one.dueAt).getTime() - 3 * DAY)
  expect(await states('INV-1')).toEqual(['done', 'scheduled', 'scheduled'])
})

test('what came due while nothing ran is sent at the next start; killed while it sends in vain, it is sent once', async () => {
  await deploy()
  const one = invoice('INV-2', 2500)
  expect(await post('/invoices', one)).toEqual({ status: 200 })
  await app?.kill9()
  await sleep(3000)
  expect(graph.sent).toEqual([])
  graph.failWith = { status: 503 }
  await deploy(one)
  await expect.poll(() => graph.failures, { timeout: 20_000 }).toBe(1)
  await app?.kill9()
  graph.failWith = undefined
  await pannier.schedule.promote('reminders', 'reminder:INV-2:soon') // rather than wait for the minute
  await deploy(one)
  await expect.poll(() => graph.textsTo(WA_ID), { timeout: 20_000 }).toEqual([soon('INV-2')])
})

test('a payment calls off what was not sent, for good: also when the next deployment still takes it for open', async () => {
  const [paid, open] = [invoice('INV-3', 10_000), invoice('INV-4', 10_000)]
  await deploy(paid, open)
  expect(await post('/invoices/INV-3/paid')).toEqual({ status: 200, reminders: ['cancelled', 'cancelled', 'cancelled'] })
  expect(await post('/invoices/INV-3/paid')).toEqual({ status: 200, reminders: ['cancelled', 'cancelled', 'cancelled'] })
  await deploy(paid, open)
  expect(await states('INV-3')).toEqual(['cancelled', 'cancelled', 'cancelled'])
  await expect.poll(() => graph.sent.length, { timeout: 20_000 }).toBe(1)
  await sleep(1500)
  expect(graph.textsTo(WA_ID)).toEqual([soon('INV-4')])
  expect(await post('/invoices/INV-4/paid')).toEqual({ status: 200, reminders: ['alreadyFinished', 'cancelled', 'cancelled'] })
})

test('another due date moves what was not sent, and sends nothing twice', async () => {
  await deploy()
  expect(await post('/invoices', invoice('INV-5', 1500))).toEqual({ status: 200 })
  await expect.poll(() => graph.sent.length, { timeout: 20_000 }).toBe(1)
  // Now it is due in two seconds.
  const moved = new Date(Date.now() + 2000)
  await expect.poll(() => states('INV-5')).toEqual(['done', 'scheduled', 'scheduled'])
  expect(await post('/invoices/INV-5/due', { dueAt: moved.toISOString() })).toEqual({ status: 200, reminders: ['alreadyFinished', 'rescheduled', 'rescheduled'] })
  await expect.poll(() => graph.sent.length, { timeout: 20_000 }).toBe(2)
  expect(graph.textsTo(WA_ID)).toEqual([soon('INV-5'), 'Invoice INV-5 over 120.50 EUR is due today.'])
  expect(graph.sent[1]?.at).toBeGreaterThanOrEqual(moved.getTime())
  expect(await post('/invoices/INV-9/paid')).toEqual({ status: 200, reminders: ['notFound', 'notFound', 'notFound'] })
  expect(await post('/invoices/INV-5/due', { dueAt: 'tomorrow' })).toMatchObject({ status: 400 })
})

test('reminders whose day has long passed are not sent when their invoice is planned today', async () => {
  await deploy(invoice('INV-6', -2 * DAY, 3), invoice('INV-7', 1000, 3))
  await expect.poll(() => states('INV-7'), { timeout: 20_000 }).toEqual(['done', 'done', 'done'])
  expect(await states('INV-6')).toEqual(['done', 'done', 'done'])
  expect(graph.textsTo(WA_ID)).toEqual(['Invoice INV-7 over 120.50 EUR is overdue. Is something wrong with it?'])
})
