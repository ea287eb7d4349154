// Over TCP with TLS and tokens, against the real sidecar: who comes in, what those who do not are told, and a token replaced under traffic.

import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { AccessError, connect, type ConnectOptions, type Pannier } from '../src/index.js'
import { usePannierAuthState } from '../src/baileys/index.js'
import { authority } from './support/certificates.js'
import { binary, Sidecar } from './support/sidecar.js'

const folder = mkdtempSync(join(tmpdir(), 'pannier-access-'))
const ca = authority('one')
const strangers = authority('other')
let sidecar: Sidecar
let port: string

function file(name: string, text: string): string {
  const path = join(folder, name)
  writeFileSync(path, text, { mode: 0o600 })
  return path
}

function tokens(...args: string[]): string {
  const done = spawnSync(binary(), ['tokens', ...args, '--token-file', join(folder, 'tokens.toml')], { encoding: 'utf8' })
  if (done.status !== 0) throw new Error(done.stderr)
  return done.stdout.trim()
}

/** Until a `tokens` command has had effect. */
const settled = (): Promise<void> => sleep(1500)

const own = tokens('add', 'own', '--scope', 'namespace:own')
const narrow = tokens('add', 'narrow', '--scope', 'dedup')
const server = ca.server('pannier.test', '127.0.0.1')

beforeAll(async () => {
  sidecar = await Sidecar.start({
    args: ['--listen', '127.0.0.1:0', '--token-file', join(folder, 'tokens.toml'), '--tls-cert', file('cert.pem', server.cert),
      '--tls-key', file('key.pem', server.key), '--tls-client-ca', file('ca.pem', ca.ca)],
  })
  await sidecar.connect()
  const line = sidecar.logs().split('\n').find(one => one.includes('listening on TCP')) ?? ''
  port = (JSON.parse(line) as { address: string }).address.split(':')[1] ?? ''
})

afterAll(async () => {
  await sidecar.stop()
  rmSync(folder, { recursive: true, force: true })
})

const open: Pannier[] = []
afterAll(() => Promise.all(open.map(one => one.close())))

async function over(options: ConnectOptions = {}): Promise<Pannier> {
  const pannier = await connect({
    address: `127.0.0.1:${port}`, tls: { ca: ca.ca, ...ca.client() }, token: own, namespace: 'own', readyTimeout: 8000, ...options,
  })
  open.push(pannier)
  return pannier
}

async function listed(pannier: Pannier): Promise<string[]> {
  const names: string[] = []
  for await (const { session } of pannier.sessions.list()) names.push(session)
  return names
}

test('everything goes over TCP with TLS, a client certificate and a token', async () => {
  const pannier = await over()
  expect(await pannier.dedup.claimOnce('m1')).toBe(true)
  expect(await pannier.dedup.claimOnce('m1')).toBe(false)
  await pannier.conversations.advance('c', 'here')
  const { id } = await pannier.schedule.enqueue('q', { payload: { n: 1 } })
  const seen = new Promise<string>(resolve => {
    const worker = pannier.worker('q', job => {
      resolve(job.id)
      return Promise.resolve()
    })
    open.push({ close: () => worker.close() } as unknown as Pannier)
  })
  expect(await seen).toBe(id)
  expect(await listed(pannier)).toEqual([])
})

test('a wrong, a missing and a too narrow token are AccessErrors that say what to do', async () => {
  for (const [token, what] of [['pannier_wrong', 'not known'], [undefined, 'needs a token']] as const) {
    const refused = (await connect({ address: `127.0.0.1:${port}`, tls: { ca: ca.ca, ...ca.client() }, ...(token ? { token } : {}), readyTimeout: 8000 })
      .catch((error: unknown) => error)) as AccessError
    expect(refused).toBeInstanceOf(AccessError)
    expect(refused).toMatchObject({ reason: 'UNAUTHENTICATED', retryable: false })
    expect(refused.message).toContain(what)
    expect(refused.hint).toContain('pannier tokens add')
    expect(JSON.stringify(refused) + refused.message).not.toContain('pannier_wrong')
  }
  const pannier = await over({ token: narrow, namespace: 'any' })
  expect(await pannier.dedup.claimOnce('m2')).toBe(true)
  for (const [call, scope] of [
    [() => pannier.conversations.get('c'), 'conversation'],
    [() => pannier.schedule.enqueue('q', { payload: null }), 'schedule'],
    [() => listed(pannier), 'session'],
  ] as const) {
    const refused = (await (call() as Promise<unknown>).catch((error: unknown) => error)) as AccessError
    expect(refused).toBeInstanceOf(AccessError)
    expect(refused).toMatchObject({ reason: 'PERMISSION_DENIED', scope })
  }
  const elsewhere = await over({ namespace: 'other' })
  await expect(elsewhere.dedup.claimOnce('m3')).rejects.toMatchObject({ reason: 'PERMISSION_DENIED', scope: 'namespace' })
  await expect(listed(elsewhere)).rejects.toMatchObject({ reason: 'PERMISSION_DENIED', scope: 'namespace' })
})

test('certificates that do not fit are told at once, and how to put it right', async () => {
  const begun = Date.now()
  for (const tls of [
    { ca: strangers.ca, ...ca.client() },
    { ca: ca.ca, ...ca.client(), serverName: 'another.test' },
    true,
  ]) {
    const refused = (await over({ tls, readyTimeout: 20_000 }).catch((error: unknown) => error)) as AccessError
    expect(refused, JSON.stringify(Object.keys(tls))).toBeInstanceOf(AccessError)
    expect(refused.reason).toBe('TLS_FAILED')
    expect(refused.hint).toContain('serverName')
  }
  expect(Date.now() - begun).toBeLessThan(10_000)
  // Of its own certificate a client learns only that the connection ends.
  for (const tls of [{ ca: ca.ca }, { ca: ca.ca, ...strangers.client() }, { ca: ca.ca, ...ca.client({ expired: true }) }, undefined]) {
    const refused = await over({ tls: tls ?? false, readyTimeout: 1500 }).catch((error: unknown) => error)
    expect((refused as AccessError).code).toBe('UNAVAILABLE')
  }
  expect(await (await over({ tls: { ca: ca.ca, ...ca.client(), serverName: 'pannier.test' } })).dedup.claimOnce('m4')).toBe(true)
})

test('the environment alone is enough', async () => {
  const { cert, key } = ca.client()
  vi.stubEnv('PANNIER_ADDRESS', `127.0.0.1:${port}`)
  vi.stubEnv('PANNIER_TOKEN_FILE', file('own.token', `${own}\n`))
  vi.stubEnv('PANNIER_TLS_CA', file('roots.pem', ca.ca))
  vi.stubEnv('PANNIER_TLS_CLIENT_CERT', file('client.pem', cert))
  vi.stubEnv('PANNIER_TLS_CLIENT_KEY', file('client.key', key))
  try {
    const pannier = await connect({ namespace: 'own', readyTimeout: 8000 })
    open.push(pannier)
    expect(await pannier.dedup.claimOnce('m5')).toBe(true)
  } finally {
    vi.unstubAllEnvs()
  }
})

test('options that would give the token away, or mean nothing, are refused before anything is sent', async () => {
  const tokenFile = file('two.token', 'two words')
  for (const [options, say] of [
    [{ address: '192.0.2.1:7600', token: own }, /192\.0\.2\.1 in clear/],
    [{ address: 'bot.example:7600', token: own, tls: false }, /in clear/],
    [{ token: own, tokenFile }, /not both/],
    [{ tokenFile }, /one token/],
    [{ tokenFile: join(folder, 'tokens.toml') }, /holds hashes/],
    [{ tokenFile: '/nowhere/token' }, /\/nowhere\/token cannot be read/],
    [{ token: '' }, /one token/],
    [{ tls: { ca: ca.ca, cert: 'x' } }, /belong together/],
    [{ tls: { servername: 'x' } as object }, /did you mean `serverName`/],
    [{ address: sidecar.address, tls: true }, /unix socket needs none/],
  ] as [ConnectOptions, RegExp][]) {
    await expect(connect({ address: `127.0.0.1:${port}`, ...options })).rejects.toThrow(say)
  }
})

/** Add one, write it where the client reads, remove the old: neither calls nor streams notice. */
test('a token is replaced under traffic, and no call and no stream fails', async () => {
  const first = tokens('add', 'first', '--scope', 'namespace:own')
  await settled()
  const tokenFile = file('bot.token', first)
  const options = { address: `127.0.0.1:${port}`, tls: { ca: ca.ca, ...ca.client() }, tokenFile, namespace: 'own', readyTimeout: 8000 }
  const pannier = await connect(options)
  open.push(pannier)
  const auth = await usePannierAuthState(pannier, 'bot')
  const problems: unknown[] = []
  auth.on('fatal', error => problems.push(error))
  let handled = 0
  const worker = pannier.worker('rotation', () => {
    handled++
    return Promise.resolve()
  })
  worker.on('problem', error => problems.push(error))
  let calls = 0
  let written = 0
  let on = true
  const traffic = (async () => {
    while (on) {
      await pannier.dedup.claimOnce(`t${calls++}`)
      await listed(pannier)
      if (calls % 10 === 0) await auth.state.keys.set({ 'sender-key': { [`k${written++}`]: Buffer.from('v') } })
      if (calls % 50 === 0) await pannier.schedule.enqueue('rotation', { payload: null })
    }
  })()
  await sleep(300)
  const second = tokens('add', 'second', '--scope', 'namespace:own')
  await settled()
  file('bot.token', second)
  tokens('remove', 'first')
  await settled()
  await sleep(1000)
  on = false
  await traffic
  expect(calls).toBeGreaterThan(100)
  const before = handled
  await pannier.schedule.enqueue('rotation', { payload: null })
  await vi.waitFor(() => expect(handled).toBeGreaterThan(before), 5000)
  await worker.close()
  const ids = Array.from({ length: written }, (_, n) => `k${n}`)
  expect(Object.keys(await auth.state.keys.get('sender-key', ids))).toHaveLength(written)
  expect(problems.filter(error => error instanceof AccessError)).toEqual([])
  await auth.close()

  // When nothing replaces it, the calls are refused.
  tokens('remove', 'second')
  await settled()
  await expect(pannier.dedup.claimOnce('late')).rejects.toBeInstanceOf(AccessError)
  await expect(listed(pannier)).rejects.toBeInstanceOf(AccessError)
  expect(sidecar.logs()).not.toContain(second)
})
