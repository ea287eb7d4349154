// Calls over the pipe while sidecar and Valkey are killed, stopped and away. Nothing lost, nothing twice, and every call settles.
import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import type { Pannier } from '../src/index.js'
import { compile } from './support/compile.js'
import { error, pause, within } from './support/states.js'
import { type Sidecar, sidecarForEach } from './support/sidecar.js'

let sidecar: Sidecar
let pannier: Pannier
sidecarForEach(place => ({ sidecar, pannier } = place))

const policy = (limit: number, failOpen = false): Promise<unknown> => pannier.caps.setPolicy({ name: 'cap', algorithm: 'fixed', limit, window: '400d', failOpen })
const used = async (): Promise<number | undefined> => (await pannier.caps.peek({}, 'cap')).policies[0]?.used

test('the sidecar is killed again and again: each claim is won once, each change is there, each send counted once', async () => {
  await policy(1_000_000)
  const timeout = '30s'
  let stop = false
  let next = 0
  const claims: boolean[] = []
  const worker = async (): Promise<void> => {
    while (!stop) {
      const n = next++
      const [claimed, advanced, consumed] = await Promise.all([
        pannier.dedup.claimOnce(`k${n}`, { timeout }),
        pannier.conversations.advance(`c${n % 16}`, undefined, { [`f${n}`]: n }, { timeout }),
        pannier.caps.consume({}, 'cap', { sendId: `s${n}`, timeout }),
      ])
      claims.push(claimed)
      expect([advanced.outcome, consumed.allowed]).toEqual(['advanced', true])
    }
  }
  const workers = Promise.all(Array.from({ length: 16 }, worker))
  for (let i = 0; i < 6; i++) {
    await pause(100 + Math.random() * 300)
    await sidecar.restart()
  }
  await pause(300)
  stop = true
  await within(60_000, workers)
  // An answer that was lost is not taken for somebody else's claim.
  expect(claims).toEqual(Array<boolean>(next).fill(true))
  expect(await Promise.all(Array.from({ length: next }, (_, n) => pannier.dedup.claimOnce(`k${n}`)))).toEqual(Array(next).fill(false))
  const fields: Record<string, unknown> = {}
  for (let n = 0; n < 16; n++) Object.assign(fields, (await pannier.conversations.get(`c${n}`)).fields)
  expect(fields).toEqual(Object.fromEntries(Array.from({ length: next }, (_, n) => [`f${n}`, n])))
  expect(await used()).toBe(next)
}, 120_000)

test('claim, work, complete, while the sidecar is killed: every message is worked on, none twice within its time', async () => {
  const runs = new Map<string, number>()
  const keys = Array.from({ length: 60 }, (_, n) => `m${n}`)
  const handle = async (key: string): Promise<void> => {
    // Delivered twice, as webhooks are; again until somebody is done with it.
    for (;;) {
      const result = await pannier.dedup.run(key, async () => {
        runs.set(key, (runs.get(key) ?? 0) + 1)
        await pause(20)
      }, { inProgressTtl: '20s', timeout: '30s' })
      if (result.outcome === 'completed' || result.outcome === 'duplicate') return
      await pause(50)
    }
  }
  let stop = false
  const killer = (async () => {
    while (!stop) {
      await pause(150 + Math.random() * 200)
      await sidecar.restart()
    }
  })()
  for (const key of keys) await within(60_000, Promise.all([handle(key), handle(key)]))
  stop = true
  await killer
  expect([...runs.values()]).toEqual(keys.map(() => 1))
}, 120_000)

test('the sidecar is stopped in order and another one comes: no call is lost', async () => {
  await policy(1_000_000)
  const calls: Promise<unknown>[] = []
  const exited = sidecar.exited()
  let n = 0
  const caller = setInterval(() => calls.push(pannier.caps.consume({}, 'cap', { sendId: `s${n++}`, timeout: '20s' })), 2)
  await pause(100)
  sidecar.signal('SIGTERM')
  await exited
  sidecar.run()
  await pause(500)
  clearInterval(caller)
  await within(30_000, Promise.all(calls))
  expect(await used()).toBe(n)
})

test('Valkey is away for a moment: calls only take longer', async () => {
  await policy(10)
  await sidecar.valkey.kill9()
  const calls = Promise.all([
    pannier.dedup.claimOnce('k', { timeout: '20s' }), pannier.conversations.advance('c', 's', {}, { timeout: '20s' }), pannier.caps.consume({}, 'cap', { sendId: 's', timeout: '20s' }),
  ])
  await pause(700)
  await sidecar.valkey.run()
  const [claimed, advanced, consumed] = await within(30_000, calls)
  expect([claimed, advanced.outcome, consumed.outcome]).toEqual([true, 'advanced', 'allowed'])
})

test('Valkey stays away: every call fails for that reason by its deadline, never with a no; a cap that fails open lets send', async () => {
  await policy(10)
  await pannier.caps.setPolicy({ name: 'open', algorithm: 'fixed', limit: 10, window: '1h', failOpen: true })
  await pannier.caps.consume({}, ['cap', 'open'], { sendId: 'warm' })
  await sidecar.valkey.kill9()
  const started = performance.now()
  const calls = [
    pannier.dedup.claimOnce('k'), pannier.dedup.claim('k'), pannier.dedup.claimBatch(['k']), pannier.conversations.get('c'), pannier.conversations.advance('c', 's'),
    pannier.conversations.touch('c'), pannier.conversations.reset('c'), pannier.caps.consume({}, 'cap', { sendId: 's' }), pannier.caps.consume({}, ['cap', 'open'], { sendId: 's' }),
    pannier.caps.confirm('s'), pannier.caps.refund('s'), pannier.caps.noteInbound('r'),
  ]
  const failures = await Promise.all(calls.map(call => error(call)))
  expect(performance.now() - started).toBeLessThan(7000)
  for (const failure of failures) {
    expect(failure.name).toMatch(/^(UnavailableError|DeadlineExceededError)$/)
    expect(failure.retryable).toBe(true)
  }
  const open = await pannier.caps.consume({}, 'open', { sendId: 's' })
  expect(open).toMatchObject({ allowed: true, outcome: 'allowed', failedOpen: true, usage: [] })
  await sidecar.valkey.run()
  await expect.poll(() => pannier.dedup.claimOnce('k2').catch(() => undefined), { timeout: 20_000 }).toBe(true)
})

test('a sidecar that accepts and never answers: each call ends by its deadline, doubtful if it writes; afterwards all is well', async () => {
  await pannier.dedup.claimOnce('before')
  sidecar.signal('SIGSTOP')
  const started = performance.now()
  const [get, claim, short] = await Promise.all([
    error(pannier.conversations.get('c')), error(pannier.dedup.claimOnce('k')), error(pannier.dedup.claimOnce('k2', { timeout: 300 })).then(failure => ({ failure, ms: performance.now() - started })),
  ])
  expect(performance.now() - started).toBeLessThan(7000)
  expect(get).toMatchObject({ reason: 'DEADLINE_EXCEEDED', outcomeUnknown: false })
  expect(claim).toMatchObject({ reason: 'DEADLINE_EXCEEDED', outcomeUnknown: true })
  expect(short.failure.reason).toBe('DEADLINE_EXCEEDED')
  expect(short.ms).toBeLessThan(2300)
  sidecar.signal('SIGCONT')
  expect(await within(20_000, pannier.dedup.claimOnce('after'))).toBe(true)
})

test('a process that was busy for longer than the deadline takes the answers that came meanwhile', async () => {
  await pannier.dedup.claimOnce('warm')
  sidecar.signal('SIGSTOP')
  const claim = pannier.dedup.claimOnce('k', { timeout: 1000 })
  await pause(50)
  // From here the timers come next, before anything is read.
  await new Promise(resolve => setImmediate(resolve))
  // Nothing here runs until this ends; the sidecar answers in between.
  execFileSync('sh', ['-c', `kill -CONT ${sidecar.pid}; sleep 2.5`])
  expect(await claim).toBe(true)
})

test('run: a claim that cannot be kept aborts its work before another may have it', async () => {
  const result = await Promise.allSettled([
    pannier.dedup.run('k', async ({ signal }) => {
      sidecar.signal('SIGSTOP')
      const started = performance.now()
      await new Promise(resolve => signal.addEventListener('abort', resolve))
      const ms = performance.now() - started
      sidecar.signal('SIGCONT')
      return ms
    }, { inProgressTtl: 1200 }),
  ])
  const [{ status, value } = { status: 'none', value: undefined }] = result as { status: string; value?: { value: number } }[]
  expect(status).toBe('fulfilled')
  expect(value?.value).toBeLessThan(3600)
})

test('1 000 calls of every kind at once, each with its own answer', async () => {
  await policy(250)
  const results = await Promise.all(Array.from({ length: 1000 }, async (_, n) => {
    const which = n % 4
    if (which === 0) return pannier.dedup.claimOnce(`k${n % 500}`)
    if (which === 1) return (await pannier.conversations.advance(`c${n}`, `step ${n}`, { n })).state.fields.n === n
    if (which === 2) return pannier.caps.consume({}, 'cap', { sendId: `s${n}` }).then(({ allowed }) => allowed)
    return (await pannier.dedup.claimBatch([`b${n}`, `b${n}`])).map(({ outcome }) => outcome).join() === 'new,inProgress'
  }))
  const of = (which: number): unknown[] => results.filter((_, n) => n % 4 === which)
  expect(of(0).filter(Boolean)).toHaveLength(125)
  for (const which of [1, 2, 3]) expect(of(which)).toEqual(Array(250).fill(true))
})

test('close: open calls end, those after it are refused; it ends in its time when the sidecar never answers', async () => {
  const other = await sidecar.connect()
  const open = Promise.all(Array.from({ length: 600 }, (_, n) => other.dedup.claimOnce(`k${n}`)))
  const ran = other.dedup.run('r', async () => (await pause(300), 'done'))
  await pause(20)
  await other.close()
  expect(await open).toEqual(Array(600).fill(true))
  expect(await ran).toMatchObject({ outcome: 'completed', value: 'done' })
  expect(await error(other.dedup.claimOnce('x'))).toMatchObject({ name: 'ClosedError', outcomeUnknown: false })
  expect(await error(other.dedup.run('x', () => 1))).toMatchObject({ name: 'ClosedError' })

  await pannier.dedup.claimOnce('warm')
  sidecar.signal('SIGSTOP')
  const never = error(pannier.dedup.claimOnce('y'))
  await pause(20)
  const started = performance.now()
  await pannier.close({ timeout: 500 })
  expect(performance.now() - started).toBeLessThan(2500)
  expect(await never).toMatchObject({ name: 'ClosedError', outcomeUnknown: true })
  sidecar.signal('SIGCONT')
})

test('a process with an idle pipe, and without close, ends by itself; one with an open call does not', async () => {
  const root = fileURLToPath(new URL('..', import.meta.url))
  const out = mkdtempSync(join(root, 'node_modules/.pannier-'))
  try {
    compile(join(root, 'src'), out)
    const run = (code: string): ReturnType<typeof spawn> =>
      spawn(process.execPath, ['--input-type=module', '-e', `import { connect } from ${JSON.stringify(join(out, 'index.js'))}\nconst pannier = await connect({ address: ${JSON.stringify(sidecar.address)} })\n${code}`], { stdio: ['ignore', 'inherit', 'inherit'] })
    const idle = run('await pannier.dedup.claimOnce("idle")')
    expect(await within(20_000, once(idle, 'exit'))).toEqual([0, null])
    expect(await pannier.dedup.claimOnce('idle')).toBe(false)
    // Nothing but its call keeps it.
    const open = run('await pannier.dedup.claimOnce("warm"); pannier.dedup.claimOnce("open").then(won => process.exit(won ? 7 : 8))')
    expect(await within(20_000, once(open, 'exit'))).toEqual([7, null])
  } finally {
    rmSync(out, { recursive: true, force: true })
  }
})
