import type { SignalDataSet } from 'baileys'
import { expect, test } from 'vitest'
import { replay } from '../bench/replay.js'
import type { OpenStore } from '../bench/stores/store.js'
import { type KeyType, loadTrace, TRACES } from '../bench/trace.js'
import { bufferJson, makeCreds, makeValue } from '../bench/values.js'
import { memoryAuthState } from '../src/memory-store.js'
import { Random } from '../src/random.js'

function memoryStore(set?: (data: SignalDataSet, keep: (data: SignalDataSet) => void) => void): OpenStore {
  const state = memoryAuthState()
  const keep = (data: SignalDataSet) => void state.keys.set(data)
  return {
    state: { ...state, keys: { ...state.keys, set: data => (set ? set(data, keep) : keep(data)) } },
    saveCreds: async () => undefined,
    flush: async () => undefined,
    close: async () => undefined,
  }
}

test.each(TRACES)('the values made up for %s have the sizes that it names', async name => {
  const random = new Random(1)
  for (const op of await loadTrace(name)) {
    if (op.op !== 'set') continue
    for (const [type, sizes] of Object.entries(op.d)) {
      for (const size of Object.values(sizes)) {
        if (size === null) continue
        const made = bufferJson(makeValue(type as KeyType, size, random)).length
        // Base64 text comes in steps of four.
        expect(Math.abs(made - size), `${type} of ${size} bytes is ${made}`).toBeLessThan(4)
      }
    }
  }
})

test('the same seed makes the same values, another seed others', () => {
  const make = (seed: number) => bufferJson([makeValue('session', 5_000, new Random(seed)), makeCreds(2_500, new Random(seed)).noiseKey])
  expect(make(1)).toBe(make(1))
  expect(make(1)).not.toBe(make(2))
})

test('a replay reads back what it wrote', async () => {
  const timing = await replay(await loadTrace('day-small'), memoryStore(), 1, [])
  expect(timing).toMatchObject({ gets: 4_259, sets: 2_234 })
})

test('a replay finds a single lost write', async () => {
  let sets = 0
  const lossy = memoryStore((data, keep) => void (++sets === 500 || keep(data)))
  await expect(replay(await loadTrace('day-small'), lossy, 1, [])).rejects.toThrow(/was written/)
})
