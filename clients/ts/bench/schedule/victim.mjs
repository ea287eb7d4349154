// A worker that takes a job and is killed. Says so on stdout.
import { Worker } from 'bullmq'
import { Redis } from 'ioredis'
import { connect } from '../../dist/index.js'

const [, , which, where, queue] = process.argv
const stuck = async () => {
  process.stdout.write('has it\n')
  await new Promise(() => {})
}
if (which === 'bullmq') {
  new Worker(queue, stuck, { connection: new Redis({ path: where, maxRetriesPerRequest: null }) })
} else {
  const pannier = await connect({ address: where })
  pannier.worker(queue, stuck)
}
