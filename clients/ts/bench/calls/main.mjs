// Claim, Advance and Consume beside what people write with ioredis, from one Node process, one by one and 64 at once, in turns on
// one Valkey. `make bench-calls`; options: --rounds 5 --one 2000 --many 20000 --fsync everysec --call claim --json FILE
import { writeFileSync } from 'node:fs'
import { cpus, loadavg } from 'node:os'
import { parseArgs } from 'node:util'
import { connect } from '../../dist/index.js'
import { machine, median, timed } from '../measure.mjs'
import { ioredis } from './recipes.mjs'
import { keyBytes, servers } from './servers.mjs'

const { values: options } = parseArgs({
  options: {
    rounds: { type: 'string', default: '5' },
    one: { type: 'string', default: '2000' },
    many: { type: 'string', default: '20000' },
    fsync: { type: 'string', default: 'everysec' },
    call: { type: 'string', multiple: true, default: ['claim', 'advance', 'consume'] },
    json: { type: 'string' },
  },
})
const ROUNDS = Number(options.rounds)
const AT_ONCE = 64
const CHATS = 1000

const [load] = loadavg()
const env = await servers(options.fsync)
const pannier = await connect({ address: env.address })
const single = ioredis(env.socket, false)
const pipelined = ioredis(env.socket, true)
if (options.call.includes('consume')) await pannier.caps.setPolicy({ name: 'daily', scope: 'recipient', algorithm: 'fixed', limit: 1_000_000 })

const fields = n => ({ invoiceId: `INV-${n}`, amount: '120.50' })
const chat = n => `4917${String(n % CHATS).padStart(8, '0')}`
const wamid = n => `wamid.HBgMNDkxNzAwMDAwMDAwFQIAEhgUM0E${String(n).padStart(12, '0')}`
const isNew = async answer => {
  if ((await answer) !== true) throw new Error('a new key was taken for a duplicate')
}

/** By call: contenders, the last of them ours. `n` never comes twice. */
const CALLS = {
  claim: {
    'SET NX EX': ({ bare }, n) => isNew(bare.claim(wamid(n))),
    'a script': ({ script }, n) => isNew(script.claim(wamid(n))),
    pannier: (_, n) => isNew(pannier.dedup.claimOnce(wamid(n))),
  },
  advance: {
    'MULTI HSET EXPIRE': ({ bare }, n) => bare.advance(chat(n), fields(n)),
    'a script': ({ script }, n) => script.advance(chat(n), fields(n)),
    pannier: (_, n) => pannier.conversations.advance(chat(n), 'awaiting_amount', fields(n)),
  },
  consume: {
    'MULTI INCR EXPIRE': ({ bare }, n) => bare.consume(chat(n)),
    'rate-limiter-flexible': ({ limiter }, n) => limiter.consume(chat(n)),
    'a script': ({ script }, n) => script.consume(chat(n), wamid(n)),
    pannier: (_, n) => pannier.caps.consume({ recipient: chat(n) }, 'daily', { sendId: wamid(n) }),
  },
}

for (const call of Object.keys(CALLS)) if (!options.call.includes(call)) delete CALLS[call]

let number = 0
async function measure(call, clients, count, atOnce) {
  let left = count
  const worker = async () => {
    while (left-- > 0) await call(clients, ++number)
  }
  return timed(env, count, () => Promise.all(Array.from({ length: atOnce }, worker)))
}

const samples = {}
for (let round = -1; round < ROUNDS; round++) {
  for (const [call, contenders] of Object.entries(CALLS)) {
    const names = Object.keys(contenders)
    for (let turn = 0; turn < names.length; turn++) {
      // Each round begins with another one.
      const name = names[(turn + round + 1) % names.length]
      const one = await measure(contenders[name], single, round < 0 ? 500 : Number(options.one), 1)
      const many = await measure(contenders[name], pipelined, round < 0 ? 5000 : Number(options.many), AT_ONCE)
      // The first round only warms up.
      if (round >= 0) ((samples[call] ??= {})[name] ??= []).push({ one, many })
    }
  }
}

function table(call, mode, title) {
  const rows = Object.keys(CALLS[call]).map(name => {
    const list = samples[call][name]
    const of = what => median(list.map(sample => sample[mode][what]))
    const all = list.map(sample => 1e6 / sample[mode].us).sort((a, b) => a - b)
    return { name, rate: 1e6 / of('us'), low: all[0], high: all.at(-1), us: of('us'), node: of('node'), sidecar: of('sidecar'), valkey: of('valkey') }
  })
  const ours = rows.at(-1)
  console.log(`\n${call}, ${title}\n`)
  console.log('| | calls/s (spread) | µs a call | Node CPU µs | sidecar CPU µs | Valkey CPU µs | Pannier is × of it | the best rounds |')
  console.log('| --- | --- | --- | --- | --- | --- | --- | --- |')
  for (const row of rows) {
    const sidecar = row === ours ? row.sidecar.toFixed(1) : '–'
    console.log(`| ${row.name} | ${row.rate.toFixed(0)} (${row.low.toFixed(0)}–${row.high.toFixed(0)}) | ${row.us.toFixed(1)} | ${row.node.toFixed(1)} | ${sidecar} | ${row.valkey.toFixed(1)} | ${(ours.rate / row.rate).toFixed(2)} | ${(ours.high / row.high).toFixed(2)} |`)
  }
}

console.log(`${cpus()[0]?.model}, ${cpus().length} cores, load ${load.toFixed(1)} before; Node ${process.version}; ${env.version}; appendfsync ${options.fsync}; medians of ${ROUNDS} rounds`)
for (const call of Object.keys(CALLS)) {
  table(call, 'one', 'one by one')
  table(call, 'many', `${AT_ONCE} at once`)
}

/** What one more of each takes in Valkey. */
async function memory() {
  const N = 1000
  const apart = await servers(options.fsync)
  const client = await connect({ address: apart.address })
  const plain = ioredis(apart.socket, true)
  await client.caps.setPolicy({ name: 'daily', scope: 'recipient', algorithm: 'fixed', limit: 1_000_000 })
  await client.caps.consume({ recipient: 'warm' }, 'daily', { sendId: 'warm' })
  const rows = []
  const each = async (name, work) => {
    const before = await keyBytes(apart.redis)
    await Promise.all(Array.from({ length: N }, (_, n) => work(n)))
    const after = await keyBytes(apart.redis)
    const bytes = (after.bytes - before.bytes) / N
    rows.push({ name, bytes, keys: (after.keys - before.keys) / N })
    return bytes
  }
  const own = n => `4917${String(n).padStart(8, '0')}`
  await each('claim: SET NX EX', n => plain.bare.claim(wamid(n)))
  await each('claim: pannier, claimOnce', n => client.dedup.claimOnce(wamid(n)))
  await each('claim: pannier, in progress', n => client.dedup.claim(`p${wamid(n)}`))
  await each('conversation: HSET', n => plain.bare.advance(own(n), fields(n)))
  await each('conversation: pannier', n => client.conversations.advance(own(n), 'awaiting_amount', fields(n)))
  await each('cap: INCR', n => plain.bare.consume(own(n)))
  const both = await each('cap counter and remembered send: pannier', n => client.caps.consume({ recipient: own(n) }, 'daily', { sendId: wamid(n) }))
  const send = await each('  the remembered send alone (the counter is there)', n => client.caps.consume({ recipient: own(n) }, 'daily', { sendId: `2${wamid(n)}` }))
  rows.push({ name: '  the counter alone', bytes: both - send, keys: 1 })
  console.log('\n| in Valkey, each | bytes | keys |\n| --- | --- | --- |')
  for (const { name, bytes, keys } of rows) console.log(`| ${name} | ${bytes.toFixed(0)} | ${keys.toFixed(2)} |`)
  await client.close()
  plain.redis.disconnect()
  apart.stop()
  return rows
}

const bytes = options.call.length === 3 ? await memory() : []
if (options.json) {
  writeFileSync(options.json, JSON.stringify({ machine: machine(env, options.fsync, load), samples, bytes }, null, 2))
}
await pannier.close()
for (const { redis } of [single, pipelined]) redis.disconnect()
env.stop()
