// The service around the reminders: plans at each start, and hears of new invoices, payments and other due dates over HTTP.
import { createServer, type IncomingMessage } from 'node:http'
import { readFile } from 'node:fs/promises'
import { json } from 'node:stream/consumers'
import { BadRequestError, connect } from 'pannier'
import { callOff, plan, postpone, QUEUE, remind, type Invoice } from './reminders.ts'

const {
  ACCESS_TOKEN, PHONE_NUMBER_ID, GRAPH_URL = 'https://graph.facebook.com/v24.0',
  INVOICES = 'invoices.json', PORT = '8081',
} = process.env
if (!ACCESS_TOKEN || !PHONE_NUMBER_ID) throw new Error('ACCESS_TOKEN and PHONE_NUMBER_ID must be set: see README.md')

const pannier = await connect() // waits 30 s for the sidecar, then says what to do
// The open invoices; yours come from a database. Redeployed ten times a day, this adds nothing that is there, was sent, or was called off.
await plan(pannier, JSON.parse(await readFile(INVOICES, 'utf8')) as Invoice[])

const worker = pannier.worker(QUEUE, remind((to, body) => fetch(`${GRAPH_URL}/${PHONE_NUMBER_ID}/messages`, {
  method: 'POST',
  headers: { authorization: `Bearer ${ACCESS_TOKEN}`, 'content-type': 'application/json' },
  // Outside the 24 h after a user's last message Meta takes only templates: put yours here.
  body: JSON.stringify({ messaging_product: 'whatsapp', to, type: 'text', text: { body } }),
  signal: AbortSignal.timeout(8_000),
})), { concurrency: 5, lease: '10s' })
worker.on('failed', (job, error, { retried }) => console.error(`${job.id} failed, ${retried ? 'tried again' : 'given up'}:`, error))

const server = createServer((request, response) => {
  handle(request).catch(error => {
    if (error instanceof BadRequestError || error instanceof SyntaxError) return { status: 400, body: { error: error.message } }
    console.error(error)
    return { status: 503, body: { error: 'not now' } } // ask again: each of these may be asked twice
  }).then(({ status, body }) => response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body)))
})

/** POST /invoices {id, waId, amount, dueAt}; POST /invoices/ID/paid; POST /invoices/ID/due {dueAt} */
async function handle(request: IncomingMessage): Promise<{ status: number; body: object }> {
  const [, top, id, what] = new URL(request.url ?? '/', 'http://localhost').pathname.split('/').map(decodeURIComponent)
  if (top !== 'invoices' || request.method !== 'POST') return { status: 404, body: {} }
  if (id === undefined) {
    await plan(pannier, [await json(request) as Invoice])
    return { status: 200, body: {} }
  }
  if (what === 'paid') return { status: 200, body: { reminders: await callOff(pannier, id) } }
  if (what === 'due') return { status: 200, body: { reminders: await postpone(pannier, id, (await json(request) as Invoice).dueAt) } }
  return { status: 404, body: {} }
}

async function stop(): Promise<void> {
  await new Promise(resolve => server.close(resolve))
  await pannier.close({ timeout: '10s' }) // its worker, too
  console.log('stopped')
}

let stopping: Promise<void> | undefined
for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  // npm and Ctrl-C may both send it: once is enough
  process.on(signal, () => {
    stopping ??= stop().then(() => process.exit())
  })
}

server.listen(Number(PORT), '127.0.0.1', () => {
  const address = server.address()
  console.log(`listening on http://127.0.0.1:${typeof address === 'object' ? address?.port : PORT}`)
})
