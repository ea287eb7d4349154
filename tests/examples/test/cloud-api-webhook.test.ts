// A bot behind Meta's webhook, in TypeScript and in Python: the same is asked of both.
import { execFileSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import type { Pannier } from 'pannier'
import { afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { connectTo } from '../../baileys/src/pannier-store.js'
import { Sidecar } from '../../baileys/src/sidecar.js'
import { Example } from '../src/example.js'
import { ACCESS_TOKEN, FakeGraph } from '../src/fake-graph.js'
import { APP_SECRET, deliver, deliveredStatus, notification, PHONE_NUMBER_ID, sign, VERIFY_TOKEN } from '../src/meta.js'

const root = fileURLToPath(new URL('../../..', import.meta.url))

describe.each(['cloud-api-webhook-ts', 'cloud-api-webhook-python'])('%s', name => {
  let command: string[]
  let sidecar: Sidecar
  let pannier: Pannier
  let graph: FakeGraph
  let bot: Example
  let url: string
  let senders = 0
  let ana: string

  beforeAll(() => {
    // What `pip install` of the README comes to, without doing it again for each run.
    command = name.endsWith('python')
      ? [execFileSync(`${root}/scripts/python`, { encoding: 'utf8', timeout: 300_000 }).trim(), 'server.py']
      : ['npm', '--silent', 'start']
  }, 300_000)

  beforeEach(async () => {
    sidecar = await Sidecar.start()
    pannier = await connectTo(sidecar)
    graph = await FakeGraph.start()
    ana = `49170${1_000_000 + ++senders}`
    await start()
  })
  afterEach(async () => {
    await bot?.kill9()
    await pannier?.close()
    await sidecar?.stop()
    await graph?.close()
    expect(graph.refused).toEqual([])
  })

  /** (Again), on another port: what is stored does not depend on it. */
  async function start(): Promise<void> {
    bot = new Example(name, {
      command, env: { PANNIER_ADDRESS: sidecar.address, ACCESS_TOKEN, APP_SECRET, VERIFY_TOKEN, GRAPH_URL: graph.url, PORT: '0' },
    })
    url = await bot.says(/listening on (\S+)/)
  }

  const replies = (count: number, to = ana, timeout = 20_000) => expect.poll(() => graph.textsTo(to), { timeout }).toHaveLength(count)
  const settled = async () => {
    // Nothing is left that could still be answered.
    await expect.poll(async () => {
      const { counts } = (await pannier.schedule.getQueue('incoming')) ?? {}
      return counts && counts.ready + counts.scheduled + counts.waiting + counts.leased
    }, { timeout: 20_000 }).toBe(0)
  }

  test('Meta verifies it with the token, and nobody else', async () => {
    const query = { 'hub.mode': 'subscribe', 'hub.challenge': '1158201444', 'hub.verify_token': VERIFY_TOKEN }
    const ask = (change: Partial<typeof query>) => fetch(`${url}?${new URLSearchParams({ ...query, ...change })}`)
    const right = await ask({})
    expect([right.status, await right.text()]).toEqual([200, '1158201444'])
    for (const change of [{ 'hub.verify_token': `${VERIFY_TOKEN}x` }, { 'hub.verify_token': '' }, { 'hub.mode': 'unsubscribe' }]) {
      const wrong = await ask(change)
      expect([wrong.status, await wrong.text()]).toEqual([403, ''])
    }
    expect((await fetch(url)).status).toBe(403)
    expect((await fetch(new URL('/other', url))).status).toBe(404)
  })

  test('what is not signed by Meta gets 401, and nothing is stored of it', async () => {
    const body = notification({ id: 'wamid.forged', from: ana, text: 'hello' })
    const other = notification({ id: 'wamid.forged', from: ana, text: 'hellp' })
    for (const signature of [null, '', 'sha256=', sign(body, 'another secret'), sign(other), sign(body).slice(7), `${sign(body)}0`, sign(body).toUpperCase(), 'sha256=ä']) {
      expect([signature, await deliver(url, body, signature)]).toEqual([signature, 401])
    }
    expect(await deliver(url, 'not JSON', sign('something else'))).toBe(401)
    expect(await pannier.schedule.get('incoming', 'message:wamid.forged')).toBeUndefined()
    const { counts, accepted } = { counts: (await pannier.schedule.getQueue('incoming'))?.counts, accepted: graph.sent.length }
    expect(Object.values(counts ?? {}).every(count => count === 0)).toBe(true)
    expect(accepted).toBe(0)
    // The same message, signed, is no duplicate then.
    expect(await deliver(url, body)).toBe(200)
    await replies(1)
  })

  test('a chat goes on from message to message, in order, and what it is told comes from its place', async () => {
    const says = (...texts: string[]) => notification(...texts.map((text, n) => ({ id: `wamid.${text}.${n}`, from: ana, text })))
    expect(await deliver(url, says('hello', 'pay', 'many', '120.5'))).toBe(200)
    await replies(4)
    expect(await pannier.conversations.get(ana)).toMatchObject({ step: 'confirm', fields: { amount: 120.5 } })
    expect(await deliver(url, says('yes'))).toBe(200)
    await replies(5)
    expect(graph.textsTo(ana)).toEqual(['You said: hello', 'How much?', 'A number, please.', 'Pay 120.5? yes or no', 'Paid 120.5.'])
    expect(graph.sent.every(({ phoneNumberId }) => phoneNumberId === PHONE_NUMBER_ID)).toBe(true)
  })

  test('statuses, which bear the ids of messages, make no reply and hide none', async () => {
    expect(await deliver(url, deliveredStatus('wamid.1', ana))).toBe(200)
    expect(await deliver(url, notification({ id: 'wamid.1', from: ana, text: 'hello' }))).toBe(200)
    await replies(1)
    await settled()
    expect(graph.sent).toHaveLength(1)
  })

  test('a message delivered five times, with the process killed in between, gets exactly one reply', async () => {
    const body = notification({ id: 'wamid.five', from: ana, text: 'pay' })
    // Killed before it can have answered, as it answers, and while it cannot send.
    graph.failWith = { status: 503 }
    for (let delivery = 1; delivery <= 4; delivery++) {
      const answered = deliver(url, body).catch(() => undefined)
      if (delivery > 1) expect(await answered).toBe(200)
      if (delivery === 3) await expect.poll(() => graph.failures, { timeout: 30_000 }).toBeGreaterThan(0)
      await bot.kill9()
      await answered
      await start()
    }
    expect(graph.sent).toEqual([])
    graph.failWith = undefined
    await replies(1, ana, 60_000)
    // And once more after it was answered.
    await settled()
    expect(await deliver(url, body)).toBe(200)
    await bot.kill9()
    await start()
    expect(await deliver(url, body)).toBe(200)
    expect(await deliver(url, notification({ id: 'wamid.six', from: ana, text: '7' }))).toBe(200)
    await replies(2)
    await settled()
    expect(graph.textsTo(ana)).toEqual(['How much?', 'Pay 7? yes or no'])
  })

  test('beyond what Meta takes for one user the replies go out later, in order, and nobody else waits', async () => {
    const texts = Array.from({ length: 47 }, (_, n) => ({ id: `wamid.burst.${n}`, from: ana, text: `${n}` }))
    expect(await deliver(url, notification(...texts))).toBe(200)
    await replies(45)
    const denied = Date.now()
    expect(await deliver(url, notification({ id: 'wamid.ben', from: '4917099999999', text: 'hi' }))).toBe(200)
    await replies(1, '4917099999999', 3000)
    expect(graph.textsTo(ana)).toHaveLength(45)
    await replies(47, ana, 30_000)
    expect(graph.textsTo(ana)).toEqual(texts.map(({ text }) => `You said: ${text}`))
    const [first, , last] = [0, 45, 46].map(n => graph.sent.filter(({ to }) => to === ana)[n]?.at ?? 0) as [number, number, number]
    // One per 6 s since the first of them: the 47th not before 12 s.
    expect(last - first).toBeGreaterThan(11_500)
    expect(last).toBeGreaterThan(denied)
    expect((await pannier.schedule.get('incoming', 'message:wamid.burst.46'))?.attempts).toBe(1)
  })

  test('what Meta will never take is given up at once; what passes is tried again', async () => {
    graph.failWith = { status: 400, code: 131026 } // "Message undeliverable"
    expect(await deliver(url, notification({ id: 'wamid.never', from: ana, text: 'hi' }))).toBe(200)
    await expect.poll(async () => (await pannier.schedule.get('incoming', 'message:wamid.never'))?.state, { timeout: 10_000 }).toBe('dead')
    graph.failWith = { status: 400, code: 131056 } // too many to this user
    expect(await deliver(url, notification({ id: 'wamid.later', from: ana, text: 'ho' }))).toBe(200)
    await expect.poll(() => graph.failures, { timeout: 10_000 }).toBeGreaterThanOrEqual(2)
    graph.failWith = undefined
    await replies(1)
    expect(graph.textsTo(ana)).toEqual(['You said: ho'])
  })

  test('while the sidecar is away Meta is told to come again; SIGTERM ends it', async () => {
    await sidecar.kill()
    const body = notification({ id: 'wamid.away', from: ana, text: 'hi' })
    expect(await deliver(url, body)).toBe(503)
    sidecar.run()
    await expect.poll(() => deliver(url, body), { timeout: 20_000 }).toBe(200)
    await replies(1)
    await settled()
    await bot.stop()
    expect(bot.output).toMatch(/stopped\n$/)
    expect(graph.sent).toHaveLength(1)
  })
})
