// Takes in what Meta delivers, and answers it. `ingest` is the line between the two: what Meta was told 200 for is stored.
import { createServer, type IncomingMessage } from 'node:http'
import { connect } from 'pannier'
import { Graph } from './graph.ts'
import { answer } from './replies.ts'
import { challenge, isSigned, textsIn, type Incoming } from './webhook.ts'

const { ACCESS_TOKEN, APP_SECRET, VERIFY_TOKEN, GRAPH_URL = 'https://graph.facebook.com/v24.0', PORT = '8080', HOST = '127.0.0.1' } = process.env
if (!ACCESS_TOKEN || !APP_SECRET || !VERIFY_TOKEN) throw new Error('ACCESS_TOKEN, APP_SECRET and VERIFY_TOKEN must be set: see README.md')

const pannier = await connect() // waits 30 s for the sidecar, then says what to do
await pannier.caps.setPolicy({ name: 'pair', preset: 'metaPair' })
const worker = pannier.worker<Incoming>('incoming', answer(pannier, new Graph(GRAPH_URL, ACCESS_TOKEN)), { concurrency: 20, lease: '10s' })
worker.on('failed', (job, error, { retried }) => console.error(`attempt ${job.attempt} failed, ${retried ? 'tried again' : 'given up'}:`, error))

const server = createServer((request, response) => {
  handle(request)
    .catch(error => {
      console.error(error)
      return { status: 503, text: '' } // Meta delivers again, for up to 7 days
    })
    .then(({ status, text = '' }) => response.writeHead(status, { 'content-type': 'text/plain' }).end(text))
})

async function handle(request: IncomingMessage): Promise<{ status: number; text?: string }> {
  const url = new URL(request.url ?? '/', 'http://localhost')
  if (url.pathname !== '/webhook') return { status: 404 }
  if (request.method === 'GET') {
    const text = challenge(url.searchParams, VERIFY_TOKEN!)
    return text === undefined ? { status: 403 } : { status: 200, text }
  }
  if (request.method !== 'POST') return { status: 405 }
  const body = await read(request)
  if (!body) return { status: 413 }
  if (!isSigned(body, request.headers['x-hub-signature-256']?.toString(), APP_SECRET!)) return { status: 401 }

  const messages = textsIn(JSON.parse(body.toString()))
  // Seen before or not, and the job, in one write. Nothing is lost or answered twice if this process dies between two of these.
  for (let n = 0; n < messages.length; n += 100) {
    await pannier.schedule.ingest<Incoming>('incoming', messages.slice(n, n + 100).map(message => ({
      dedupKey: `message:${message.id}`,
      group: message.from, // a chat's messages never overtake each other
      payload: message,
      retry: { maxAttempts: 12, base: '1s' }, // 1 + 2 + 4 … s: half an hour
    })))
  }
  return { status: 200 }
}

/** The body as it came; undefined: larger than what Meta sends (3 MB). */
async function read(request: IncomingMessage): Promise<Buffer | undefined> {
  const parts: Buffer[] = []
  let size = 0
  for await (const part of request.iterator({ destroyOnReturn: false }) as AsyncIterable<Buffer>) {
    if ((size += part.length) > 4 * 1024 * 1024) return undefined
    parts.push(part)
  }
  return Buffer.concat(parts)
}

/** First the door, then what runs. Not needed for safety: kill -9 loses nothing either. */
async function stop(): Promise<void> {
  await new Promise(resolve => server.close(resolve))
  await pannier.close({ timeout: '10s' }) // its worker, too
  console.log('stopped')
}

let stopping: Promise<void> | undefined
for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  process.on(signal, () => {
    // npm and Ctrl-C may both send it: once is enough
    stopping ??= stop().then(() => process.exit())
  })
}

server.listen(Number(PORT), HOST, () => {
  const address = server.address()
  console.log(`listening on http://${HOST}:${typeof address === 'object' ? address?.port : PORT}/webhook`)
})
