// Round trips of one commit, one after the other and 64 at once, through a sidecar that runs: PANNIER_ADDRESS=… npm run bench:stream
import { randomBytes } from 'node:crypto'
import { connect } from '../dist/index.js'
import { SessionStream } from '../dist/stream/session-stream.js'

const pannier = await connect()
const quiet = { onLost: console.error, onForeignWrite() {}, onSuspend() {}, onResume() {}, onRetry: console.error }
const stream = new SessionStream(
  pannier.connection,
  { namespace: 'default', session: 'bench', owner: 'bench', writerId: randomBytes(8).toString('hex'), onHeld: 3, waitMs: 0, leaseTtlMs: 30_000, minRevision: 0, mustExist: false, resume: undefined, preloadTypes: [] },
  quiet,
)
await stream.open(3, 10_000)

async function measure(name, n, work) {
  for (let i = 0; i < n / 5; i++) await work(i)
  const cpu = process.cpuUsage()
  const started = performance.now()
  for (let i = 0; i < n; i++) await work(i)
  const wall = ((performance.now() - started) * 1000) / n
  const used = process.cpuUsage(cpu)
  console.log(`${name.padEnd(36)} ${wall.toFixed(0).padStart(6)} µs wall ${((used.user + used.system) / n).toFixed(0).padStart(6)} µs CPU here`)
}

for (const size of [100, 5000, 20_000]) {
  const value = randomBytes(size / 2).toString('hex')
  const put = i => ({ type: 'session', id: `s${i % 500}`, kind: 2, value, size: value.length })
  await measure(`commit of ${size} bytes`, 3000, i => stream.commit({ puts: [put(i)], deletes: [] }, 10_000))
  await measure(`  a commit, 64 at once`, 60, i => Promise.all(Array.from({ length: 64 }, (_, k) => stream.commit({ puts: [put(i * 64 + k)], deletes: [] }, 10_000))))
}
await measure('get of one record', 3000, i => stream.get([{ type: 'session', ids: [`s${i % 500}`] }], 5000))
await stream.close(1000)
await pannier.close()
