import { connect } from '../dist/index.js'
import { servers } from './calls/servers.mjs'
import { bullmq, pannier } from './schedule/contenders.mjs'
const env = await servers('everysec')
const contenders = [bullmq(env.socket), pannier(await connect({ address: env.address }))]
const stats = async (per) => (await env.redis.info('commandstats')).split('\r\n').filter(l => l.startsWith('cmdstat')).map(l => { const m = /cmdstat_(\S+?):calls=(\d+),usec=(\d+),usec_per_call=([\d.]+)/.exec(l); return [m[1], m[2]/per, +m[4]] }).filter(x => x[1] > 0.02).map(x => `${x[0]} ${x[1].toFixed(2)}x${x[2]}`).join(', ')
import { readFileSync } from 'node:fs'
const cpu = pid => { const f = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1].split(' '); return (Number(f[11]) + Number(f[12])) * 10000 }
for (let r = 0; r < 2; r++) for (const c of contenders) {
  const name = c.name ?? (c === contenders[0] ? 'bullmq' : 'pannier')
  const q = c.queue()
  for (let n = 0; n < 300; n++) await q.add(n)
  await env.redis.config('RESETSTAT')
  const N = 2000
  let t = performance.now(); const c0 = [cpu(env.sidecarPid), cpu(env.valkeyPid), cpu(process.pid)]
  for (let n = 300; n < 300 + N; n++) await q.add(n)
  let us = (performance.now() - t) * 1000 / N
  const c1 = [cpu(env.sidecarPid), cpu(env.valkeyPid), cpu(process.pid)]
  if (r) console.log(name, 'add', us.toFixed(1), 'cpu sidecar valkey node', c1.map((x, i) => ((x - c0[i]) / N).toFixed(1)).join(' '), '\n  ', await stats(N))
  await env.redis.config('RESETSTAT')
  let left = N + 300, done; const all = new Promise(r => done = r)
  t = performance.now()
  const stop = await q.work(1, async () => { if (--left === 0) done() })
  await all; us = (performance.now() - t) * 1000 / (N + 300)
  if (r) console.log(name, 'work', us.toFixed(1), '\n  ', await stats(N + 300))
  await stop(); await q.close()
}
env.stop(); process.exit(0)
