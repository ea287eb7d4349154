// A set of an id while an earlier one of it is not answered yet.
import { expect, test } from 'vitest'
import type { Pannier } from '../src/index.js'
import { data, newName, one, open, pause, within } from './support/states.js'
import { type Sidecar, sidecarForEach } from './support/sidecar.js'

let sidecar: Sidecar
let pannier: Pannier
sidecarForEach(place => ({ sidecar, pannier } = place))

const bytes = (text: string) => Buffer.from(text)
const tooLarge = { 'sender-key': Object.fromEntries([0, 1, 2].map(n => [`g${n}`, Buffer.alloc(12 * 1024 * 1024)])) }

test.each([
  ['an id that is no id', { 'sender-key': { '': bytes('x') } }, 'BAD_FIELD'],
  ['more than 32 MiB', tooLarge, 'TOO_LARGE'],
])('a later set is refused (%s): gets of its ids still wait for the earlier set, and a list is told', async (_, bad, reason) => {
  const bot = await open(pannier, newName())
  await bot.state.keys.set(data({ session: { x: bytes('old') } }))
  sidecar.valkey.signal('SIGSTOP')
  try {
    const first = bot.state.keys.set(data({ session: { x: bytes('new'), y: bytes('new') } }))
    await expect(bot.state.keys.set(data({ session: { x: bytes('refused'), z: bytes('refused') }, ...bad }))).rejects.toMatchObject({ reason })
    let answered = false
    const reads = Promise.all([one(bot, 'session', 'x'), one(bot, 'session', 'y')]).finally(() => (answered = true))
    // Nothing pending has this one any more.
    expect(await within(1000, one(bot, 'session', 'z'))).toBeUndefined()
    const ids = bot.listIds('session')
    await pause(200)
    expect(answered).toBe(false)
    sidecar.valkey.signal('SIGCONT')
    await within(20_000, first)
    expect(await within(5000, reads)).toEqual([bytes('new'), bytes('new')])
    expect((await within(5000, ids)).sort()).toEqual(['x', 'y'])
  } finally {
    sidecar.valkey.signal('SIGCONT')
  }
  expect(await one(bot, 'session', 'x')).toEqual(bytes('new'))
  await bot.close()
})

test('too many sets wait: those above are refused, and a get waits for the last one that is not', async () => {
  const bot = await open(pannier, newName())
  sidecar.valkey.signal('SIGSTOP')
  try {
    const sets = Array.from({ length: 10_001 }, (_, n) => bot.state.keys.set(data({ session: { x: bytes(String(n)) } })))
    await expect(sets.pop()).rejects.toMatchObject({ reason: 'TOO_MANY_IN_FLIGHT' })
    let answered = false
    const read = one(bot, 'session', 'x').finally(() => (answered = true))
    await pause(200)
    expect(answered).toBe(false)
    sidecar.valkey.signal('SIGCONT')
    await within(30_000, Promise.all(sets))
    expect(await read).toEqual(bytes('9999'))
  } finally {
    sidecar.valkey.signal('SIGCONT')
  }
  await bot.close()
})

test('a list ends while others go on writing', async () => {
  const bot = await open(pannier, newName())
  let stop = false
  const writer = async (n: number): Promise<void> => {
    while (!stop) await bot.state.keys.set(data({ session: { [`s${n}`]: bytes('x') } }))
  }
  const writers = Array.from({ length: 4 }, (_, n) => writer(n))
  await pause(50)
  expect((await within(5000, bot.listIds('session'))).sort()).toEqual(['s0', 's1', 's2', 's3'])
  stop = true
  await Promise.all(writers)
  await bot.close()
})
