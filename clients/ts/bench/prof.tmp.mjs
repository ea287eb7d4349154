import { connect } from '/work/wt/core/clients/ts/dist/index.js'
import { servers } from '/work/wt/core/clients/ts/bench/calls/servers.mjs'
import { ioredis } from '/work/wt/core/clients/ts/bench/calls/recipes.mjs'
import { execSync, spawn } from 'node:child_process'
const env = await servers('everysec')
const pannier = await connect({ address: env.address })
await pannier.caps.setPolicy({ name: 'daily', scope: 'recipient', algorithm: 'fixed', limit: 1_000_000 })
const p = ioredis(env.socket, true), s = ioredis(env.socket, false)
const fields = n => ({ invoiceId: `INV-${n}`, amount: '120.50' })
const chat = n => `4917${String(n % 1000).padStart(8, '0')}`
const wamid = n => `wamid.HBgMNDkxNzAwMDAwMDAwFQIAEhgUM0E${String(n).padStart(12, '0')}`
const calls = {
 'adv ': n => pannier.conversations.advance(chat(n), 'awaiting_amount', fields(n)),
 'adv script': (n,c) => c.script.advance(chat(n), fields(n)),
 'con ': n => pannier.caps.consume({ recipient: chat(n) }, 'daily', { sendId: wamid(n) }),
 'con script': (n,c) => c.script.consume(chat(n), wamid(n)),
 'claim ': n => pannier.dedup.claimOnce(wamid(n)),
 'claim script': (n,c) => c.script.claim(wamid(n)),
}
let n = 0
async function go(call, c, count, par) { let left = count; await Promise.all(Array.from({length: par}, async () => { while (left-- > 0) await call(++n, c) })) }
const stats = async () => (await env.redis.info('commandstats')).split('\r\n').filter(l => /evalsha|cmdstat_eval|cmdstat_time|cmdstat_(get|set|hmget|mget)/.test(l)).map(l=>l.replace('cmdstat_','').replace(/,rej.*/,'').replace(/usec=\d+,/,''))
for (const r of [0,1]) for (const [name, call] of Object.entries(calls)) {
  if (process.argv[2] && !name.startsWith(process.argv[2])) continue
  for (const par of [1, 64]) {
    const c = par === 1 ? s : p
    await go(call, c, 500, par)
    await env.redis.config('RESETSTAT')
    const t = performance.now()
    await go(call, c, par === 1 ? 3000 : 20000, par)
    const us = (performance.now() - t) * 1000 / (par === 1 ? 3000 : 20000)
    if (r) console.log(name, par, us.toFixed(1), (await stats()).join(' '))
  }
}
await pannier.close(); p.redis.disconnect(); s.redis.disconnect(); env.stop(); process.exit(0)
