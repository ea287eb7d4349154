// Deleting, breaking a lease, and what comes after: also when an answer is lost on the way and the call is repeated.
import { symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { Metadata, type ServiceError } from '@grpc/grpc-js'
import { beforeAll, expect, test, vi } from 'vitest'
import { StaleStateError, type Pannier } from '../src/index.js'
import { data, newName, one, open, pause } from './support/states.js'
import { type Sidecar, sidecarForAll } from './support/sidecar.js'

let sidecar: Sidecar
let pannier: Pannier
let other: Pannier
let stranger: Pannier
sidecarForAll(place => ({ sidecar, pannier } = place))
beforeAll(async () => {
  other = await sidecar.connect()
  // At another address, this process knows as little as another one.
  const link = join(sidecar.folder, 'elsewhere.sock')
  symlinkSync(sidecar.address.slice('unix:'.length), link)
  stranger = await sidecar.connect({ address: `unix:${link}` })
})

const value = (n: number) => ({ n })

async function used(session: string, by = pannier): Promise<number> {
  const bot = await open(by, session)
  for (let n = 0; n < 3; n++) await bot.state.keys.set(data({ session: { a: value(n) } }))
  await bot.close()
  return (await pannier.sessions.info(session))?.incarnation ?? 0
}

const archives = async (session: string): Promise<number[]> => {
  const all = []
  for await (const archive of pannier.sessions.deleted(session)) all.push(archive.incarnation)
  return all
}

type Callback = (error: ServiceError | null, response?: unknown) => void

/** Loses one answer to `method` on its way to `over`: the sidecar has done what it was asked. Then `meanwhile`. */
function loseAnswer(over: Pannier, method: string, meanwhile: () => Promise<unknown> = () => Promise.resolve()): { lost: number } {
  const { client } = over.connection
  const real = client.makeUnaryRequest.bind(client) as (...args: unknown[]) => unknown
  const seen = { lost: 0 }
  const spy = vi.spyOn(client, 'makeUnaryRequest').mockImplementation(((...args: unknown[]) => {
    const answer = args.at(-1) as Callback
    if (!(args[0] as string).endsWith(`/${method}`)) return real(...args)
    spy.mockRestore()
    return real(...args.slice(0, -1), (error: ServiceError | null) => {
      expect(error).toBeNull()
      seen.lost++
      const broken = Object.assign(new Error('14 UNAVAILABLE: the connection broke'), { code: 14, details: 'the connection broke', metadata: new Metadata() })
      void meanwhile().catch(error => expect.unreachable(String(error))).finally(() => answer(broken))
    })
  }) as never)
  return seen
}

test.each(['shred', 'soft'] as const)('after a deletion (%s) by this process, it opens the name anew; what comes late from before changes nothing', async mode => {
  const session = newName()
  const before = await open(pannier, session)
  for (let n = 0; n < 3; n++) await before.state.keys.set(data({ session: { a: value(n) } }))
  const late = Array.from({ length: 20 }, (_, n) => before.state.keys.set(data({ session: { a: value(n) } })).catch(() => {}))
  expect(await pannier.sessions.delete(session, { mode })).toBe(true)
  await Promise.all(late)
  const closing = performance.now()
  await before.close()
  expect(performance.now() - closing).toBeLessThan(2000)
  const bot = await open(pannier, session)
  expect(await one(bot, 'session', 'a')).toBeUndefined()
  await bot.state.keys.set(data({ session: { a: value(4) } }))
  await bot.close()
  expect(await one(await open(pannier, session), 'session', 'a')).toEqual(value(4))
})

test('a session that was released is shredded, and its name is free; deleting by another connection of this process counts as well', async () => {
  for (const by of [pannier, other]) {
    const session = newName()
    await used(session)
    expect(await by.sessions.delete(session, { mode: 'shred' })).toBe(true)
    await (await open(pannier, session)).close()
  }
})

test('shredding an archive leaves alone what is known of the live session', async () => {
  const session = newName()
  const archived = await used(session)
  await pannier.sessions.delete(session)
  await used(session)
  const { revision = 0 } = (await pannier.sessions.info(session)) ?? {}
  expect(await pannier.sessions.delete(session, { mode: 'shred', incarnation: archived })).toBe(true)
  expect(await archives(session)).toEqual([])
  expect((await pannier.sessions.info(session))?.revision).toBe(revision)
  // Another name's head, one commit behind: what a database that was set back looks like.
  const head = (await sidecar.valkey.client.keys('*:h')).map(key => key)
  for (const key of head) {
    if (Number(await sidecar.valkey.client.hget(key, 'r')) === revision) await sidecar.valkey.client.hset(key, 'r', revision - 1)
  }
  await expect(open(pannier, session)).rejects.toBeInstanceOf(StaleStateError)
})

test('the answer to a deletion is lost: the repetition does not hit the newer session, and says true', async () => {
  for (const mode of ['shred', 'soft'] as const) {
    const session = newName()
    await used(session)
    let newer = 0
    const answer = loseAnswer(other, 'DeleteSession', async () => (newer = await used(session, stranger)))
    expect(await other.sessions.delete(session, { mode })).toBe(true)
    expect(answer.lost).toBe(1)
    expect((await pannier.sessions.info(session))?.incarnation).toBe(newer)
  }
})

test('shred unlinks the live session and every archive, each by its name; of nothing it says false', async () => {
  const session = newName()
  expect(await pannier.sessions.delete(session, { mode: 'shred' })).toBe(false)
  await used(session)
  await pannier.sessions.delete(session)
  await used(session)
  await pannier.sessions.delete(session)
  await used(session)
  expect(await archives(session)).toHaveLength(2)
  expect(await pannier.sessions.delete(session, { mode: 'shred' })).toBe(true)
  expect(await archives(session)).toEqual([])
  expect(await pannier.sessions.info(session)).toBeUndefined()
  expect(await pannier.sessions.delete(session, { mode: 'shred' })).toBe(false)
})

test('an incarnation that is not there any more is not deleted, nor is another in its place', async () => {
  const session = newName()
  const first = await used(session)
  await pannier.sessions.delete(session, { mode: 'shred' })
  await used(session)
  for (const mode of ['shred', 'soft'] as const) expect(await pannier.sessions.delete(session, { mode, incarnation: first })).toBe(false)
  expect(await pannier.sessions.info(session)).toBeDefined()
})

test('the answer to breakLease is lost: whoever came meanwhile keeps the lease', async () => {
  const session = newName()
  const bot = await open(pannier, session, { owner: 'first' })
  let newer: Awaited<ReturnType<typeof open>> | undefined
  const answer = loseAnswer(other, 'BreakLease', async () => {
    await bot.close()
    newer = await open(pannier, session, { owner: 'second' })
  })
  expect(await other.sessions.breakLease(session)).toBe(true)
  expect(answer.lost).toBe(1)
  await pause(500)
  expect(newer?.fatal).toEqual([])
  await newer?.state.keys.set(data({ session: { a: value(1) } }))
  await newer?.close()
  expect(await pannier.sessions.breakLease(session)).toBe(false)
})

test.each(['shred', 'soft'] as const)('the answer to a commit without a lease is lost, then the session (%s): the repetition writes into no newer one', async mode => {
  const session = newName()
  await used(session)
  loseAnswer(other, 'CommitRecords', async () => {
    await stranger.sessions.delete(session, { mode })
    await used(session, stranger)
  })
  const commit = other.sessions.commit(session, { puts: [{ type: 't', id: 'i', kind: 1, value: Buffer.from('x') }] })
  // An archive still knows that it had it.
  if (mode === 'soft') expect(await commit).toMatchObject({ replayed: true })
  else await expect(commit).rejects.toMatchObject({ reason: 'FENCED' })
  expect((await pannier.sessions.get(session, [{ type: 't', ids: ['i'] }])).records).toEqual([])
})
