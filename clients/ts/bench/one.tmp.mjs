import { connect } from '../dist/index.js'
import { servers } from './calls/servers.mjs'
import { execSync, spawn } from 'node:child_process'
const env = await servers('everysec')
const pannier = await connect({ address: env.address })
let n = 0
const N = 3000
const call = () => pannier.dedup.claimOnce('x' + ++n + process.pid)
for (let i = 0; i < 1000; i++) await call()
const st = process.argv[2] ? spawn(process.argv[2], process.argv.slice(3).map(a => a.replace('PID', env.sidecarPid).replace('VPID', env.valkeyPid)), { stdio: ['ignore', 'inherit', 'inherit'] }) : null
if (st) await new Promise(r => setTimeout(r, 1000))
const t = performance.now()
for (let i = 0; i < N; i++) await call()
console.log('us', ((performance.now() - t) * 1000 / N).toFixed(1))
if (st) { st.kill('SIGINT'); await new Promise(r => st.on('exit', r)) }
await pannier.close(); env.stop(); process.exit(0)
