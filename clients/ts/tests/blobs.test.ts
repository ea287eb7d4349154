// pannier.blobs over a real sidecar.

import { randomBytes } from 'node:crypto'
import { appendFileSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import {
  CorruptBlobError, FencedError, GenerationGoneError, NotFoundError, SessionHeldError, TooLargeError, UnavailableError, WrongStateError, type Pannier,
} from '../src/index.js'
import { SessionLease } from '../src/wwebjs/lease.js'
import { Sidecar, sidecarForAll } from './support/sidecar.js'
import { newName, pause, within } from './support/states.js'

let sidecar: Sidecar
let pannier: Pannier
let folder: string

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'pannier-blobs-'))
})
afterAll(() => rmSync(folder, { recursive: true, force: true }))
sidecarForAll(place => ({ sidecar, pannier } = place), { args: ['--max-blob', '40MiB', '--bulk-rate', '1GiB'] })

function file(content: Uint8Array | string): string {
  const path = join(folder, `in-${randomBytes(6).toString('hex')}`)
  writeFileSync(path, content)
  return path
}

async function text(blob: string, generation?: number): Promise<string> {
  const chunks: Uint8Array[] = []
  for await (const chunk of pannier.blobs.read(blob, generation === undefined ? {} : { generation })) chunks.push(chunk)
  return Buffer.concat(chunks).toString()
}

test('what is saved from a file or a stream is what is fetched', async () => {
  const blob = newName()
  for (const size of [0, 1, 256 * 1024, 256 * 1024 + 1, 5_000_000]) {
    const content = randomBytes(size)
    expect(await pannier.blobs.save(blob, file(content))).toMatchObject({ outcome: 'saved', blob: { size, state: 'current' } })
    const out = join(folder, `new/folder-${size}/out`)
    expect((await pannier.blobs.fetch(blob, out)).size).toBe(size)
    expect(readFileSync(out).equals(content)).toBe(true)
    expect(statSync(out).mode & 0o777).toBe(0o600)
    expect(readdirSync(join(out, '..'))).toEqual(['out'])
  }
  const parts = [randomBytes(10), randomBytes(700_000), Buffer.alloc(0), randomBytes(3)]
  expect((await pannier.blobs.save(blob, parts)).blob.size).toBe(700_013)
  expect((await text(blob)).length).toBe(Buffer.concat(parts).toString().length)
})

test('labels and digests come back, and an equal digest stores nothing', async () => {
  const blob = newName()
  const contentDigest = randomBytes(32)
  const first = await pannier.blobs.save(blob, file('one'), { contentDigest, labels: { from: 'here' } })
  expect(first.blob).toMatchObject({ labels: { from: 'here' } })
  expect(Buffer.from(first.blob.contentDigest)).toEqual(contentDigest)
  const big = file(randomBytes(8_000_000))
  const again = await pannier.blobs.save(blob, big, { contentDigest })
  expect(again).toMatchObject({ outcome: 'unchanged', blob: { generation: first.blob.generation } })
  expect(await pannier.blobs.generations(blob)).toHaveLength(1)
})

test('generations are kept, rolled back to, deleted and restored', async () => {
  const blob = newName()
  const numbers: number[] = []
  for (const content of ['v1', 'v2', 'v3']) numbers.push((await pannier.blobs.save(blob, file(content))).blob.generation)
  const [first = 0, second = 0, third = 0] = numbers
  expect((await pannier.blobs.generations(blob)).map(({ generation, state }) => [generation, state])).toEqual([[third, 'current'], [second, 'kept'], [first, 'kept']])
  expect(await text(blob, first)).toBe('v1')
  expect(await pannier.blobs.rollback(blob, second)).toMatchObject({ generation: second, state: 'current' })
  expect(await text(blob)).toBe('v2')
  await expect(pannier.blobs.rollback(blob, 12345)).rejects.toThrow(GenerationGoneError)

  expect(await pannier.blobs.delete(blob)).toBe(true)
  expect(await pannier.blobs.delete(blob)).toBe(false)
  const status = await pannier.blobs.stat(blob)
  expect(status.blob).toBeUndefined()
  expect(status.archives).toMatchObject([{ generation: second, generations: 3 }])
  await expect(pannier.blobs.fetch(blob, join(folder, 'never'))).rejects.toThrow(NotFoundError)
  expect(existsSync(join(folder, 'never'))).toBe(false)

  await pannier.blobs.save(blob, file('new'))
  await expect(pannier.blobs.restore(blob)).rejects.toThrow(WrongStateError)
  expect(await pannier.blobs.restore(blob, { replace: true })).toMatchObject({ generation: second })
  expect(await text(blob)).toBe('v2')
  expect(await pannier.blobs.delete(blob, { mode: 'shred' })).toBe(true)
  expect(await pannier.blobs.stat(blob)).toMatchObject({ blob: undefined, archives: [] })
})

test('lists the blobs and the deleted ones of its namespace', async () => {
  const other = await sidecar.connect({ namespace: 'listing' })
  for (const name of ['a', 'b', 'c']) await other.blobs.save(name, [Buffer.from(name)])
  await other.blobs.delete('c')
  const names: string[] = []
  for await (const blob of other.blobs.list()) names.push(blob.blob)
  expect(names.sort()).toEqual(['a', 'b'])
  const deleted: string[] = []
  for await (const archive of other.blobs.deleted()) deleted.push(archive.blob)
  expect(deleted).toEqual(['c'])
})

test('a file that changes while it is saved is not stored', async () => {
  const blob = newName()
  await pannier.blobs.save(blob, file('before'))
  const path = file(randomBytes(20_000_000))
  const writing = setInterval(() => appendFileSync(path, 'more'), 2)
  await expect(pannier.blobs.save(blob, path)).rejects.toMatchObject({ reason: 'SOURCE_CHANGED' })
  clearInterval(writing)
  expect(await text(blob)).toBe('before')
  await expect.poll(async () => (await pannier.blobs.stat(blob)).uploads).toBe(0)
})

test('a stream that fails, or gives no bytes, is not stored, and says why', async () => {
  const blob = newName()
  function* failing(): Generator<Uint8Array> {
    yield randomBytes(1_000_000)
    throw new Error('the disk is gone')
  }
  await expect(pannier.blobs.save(blob, failing())).rejects.toThrow('the disk is gone')
  await expect(pannier.blobs.save(blob, ['text'] as unknown as Uint8Array[])).rejects.toThrow(TypeError)
  await expect(pannier.blobs.save(blob, join(folder, 'missing'))).rejects.toMatchObject({ reason: 'SOURCE_UNREADABLE', message: expect.stringContaining(join(folder, 'missing')) as string })
  await expect(pannier.blobs.save(blob, folder)).rejects.toMatchObject({ reason: 'SOURCE_UNREADABLE' })
  expect((await pannier.blobs.stat(blob)).blob).toBeUndefined()
})

test('a refusal comes before all of it is sent, and is not tried again', async () => {
  const blob = newName()
  const path = file(randomBytes(60_000_000))
  await expect(within(20_000, pannier.blobs.save(blob, path))).rejects.toThrow(TooLargeError)
  await expect(pannier.blobs.save('', [Buffer.from('x')])).rejects.toMatchObject({ reason: 'BAD_FIELD', field: expect.stringContaining('blob') as string })
  await expect(pannier.blobs.save('x'.repeat(257), [])).rejects.toMatchObject({ reason: 'BAD_FIELD' })
  expect(() => pannier.blobs.read(blob, { generatoin: 1 } as object)).toThrow(/did you mean `generation`/)
})

test('a damaged blob is an error, and no file gets its name', async () => {
  const blob = newName()
  const known = new Set(await sidecar.valkey.client.keys('*'))
  await pannier.blobs.save(blob, file(randomBytes(1_000_000)))
  const part = (await sidecar.valkey.client.keys('*')).find(key => !known.has(key) && /:b:\d+:2$/.test(key)) ?? ''
  const value = await sidecar.valkey.client.getBuffer(part)
  if (!value) throw new Error('no such part')
  value[1000] = (value[1000] ?? 0) ^ 1
  await sidecar.valkey.client.set(part, value)
  const out = join(folder, 'damaged/out')
  await expect(pannier.blobs.fetch(blob, out)).rejects.toThrow(CorruptBlobError)
  expect(readdirSync(join(folder, 'damaged'))).toEqual([])
})

test('while another owner holds the session of its name, nothing changes it; its fence is the key', async () => {
  const blob = newName()
  await pannier.blobs.save(blob, [Buffer.from('v1')])
  const first = await SessionLease.take(pannier, blob, 'fail', 'A', () => {})
  await expect(pannier.blobs.save(blob, [Buffer.from('v2')])).rejects.toThrow(SessionHeldError)
  await expect(pannier.blobs.delete(blob)).rejects.toThrow(SessionHeldError)
  await pannier.blobs.save(blob, [Buffer.from('v2')], { fence: first.fence })

  const { fence } = first
  const second = await SessionLease.take(pannier, blob, 'takeOver', 'B', () => {})
  await expect(pannier.blobs.save(blob, [Buffer.from('late')], { fence })).rejects.toThrow(FencedError)
  await expect(pannier.blobs.delete(blob, { fence })).rejects.toThrow(FencedError)
  await pannier.blobs.save(blob, [Buffer.from('v3')], { fence: second.fence })
  expect(await text(blob)).toBe('v3')
  await second.release()
  await first.release()
  await pannier.blobs.save(blob, [Buffer.from('v4')])
})

test('a save that was begun before a delete cannot undo it', async () => {
  const blob = newName()
  await pannier.blobs.save(blob, [Buffer.from('v1')])
  let go = (): void => {}
  const gate = new Promise<void>(resolve => (go = resolve))
  async function* slow(): AsyncGenerator<Uint8Array> {
    yield randomBytes(500_000)
    await gate
    yield randomBytes(500_000)
  }
  const saving = pannier.blobs.save(blob, slow())
  saving.catch(() => {})
  await expect.poll(async () => (await pannier.blobs.stat(blob)).uploads).toBe(1)
  await pannier.blobs.delete(blob)
  go()
  await expect(saving).rejects.toThrow(GenerationGoneError)
  expect((await pannier.blobs.stat(blob)).blob).toBeUndefined()
})

test('files are saved and fetched over a killed sidecar; the same save is not stored twice', async () => {
  const slow = await Sidecar.start({ args: ['--bulk-rate', '16MiB'] })
  try {
    const client = await slow.connect()
    const content = randomBytes(12_000_000)
    const path = file(content)
    for (const ms of [50, 300, 600]) {
      const saving = client.blobs.save('killed', path, { contentDigest: randomBytes(8) })
      await pause(ms)
      await slow.restart()
      expect((await saving).outcome).toBe('saved')
      const fetching = client.blobs.fetch('killed', join(folder, 'killed'))
      await pause(ms)
      await slow.restart()
      await fetching
      expect(readFileSync(join(folder, 'killed')).equals(content)).toBe(true)
    }
    expect(await client.blobs.generations('killed')).toHaveLength(3)
    await slow.kill9()
    const began = performance.now()
    await expect(client.blobs.save('killed', path, { retryFor: 500 })).rejects.toThrow(UnavailableError)
    await expect(client.blobs.fetch('killed', join(folder, 'killed'), { retryFor: 500 })).rejects.toThrow(UnavailableError)
    expect(performance.now() - began).toBeLessThan(10_000)
    expect(readFileSync(join(folder, 'killed')).equals(content)).toBe(true)
  } finally {
    await slow.stop()
  }
})

test('a sidecar that stands still ends a transfer after its idle time', async () => {
  const still = await Sidecar.start()
  try {
    const client = await still.connect()
    still.signal('SIGSTOP')
    await expect(client.blobs.save('x', file(randomBytes(100_000)), { idleTimeout: 500, retryFor: 0 })).rejects.toMatchObject({ reason: 'DEADLINE_EXCEEDED' })
    await expect(client.blobs.fetch('x', join(folder, 'still'), { idleTimeout: 500, retryFor: 0 })).rejects.toMatchObject({ reason: 'DEADLINE_EXCEEDED' })
  } finally {
    await still.stop()
  }
})

test('a reader that takes nothing holds up neither others nor itself for good', async () => {
  const blob = newName()
  const content = randomBytes(30_000_000)
  await pannier.blobs.save(blob, file(content))
  const reader = pannier.blobs.read(blob)
  const first = (await reader.next()).value
  // Far more is waiting than its window holds; calls and other transfers go on.
  await pause(300)
  const began = performance.now()
  await pannier.blobs.fetch(blob, join(folder, 'beside'))
  await pannier.blobs.stat(blob)
  expect(performance.now() - began).toBeLessThan(5000)
  let size = first?.length ?? 0
  for await (const chunk of reader) size += chunk.length
  expect(size).toBe(content.length)
})
